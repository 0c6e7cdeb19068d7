"""Recall: finds earlier messages and facts of a session that a question needs."""
