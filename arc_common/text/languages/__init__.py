"""Rules by language: what in a clause says that it states a fact."""
