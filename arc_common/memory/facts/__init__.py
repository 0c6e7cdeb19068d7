"""Facts of a session: extraction, the ledger, the fidelity check and their index."""
