"""The SQL statements of the stores, one module for each."""
