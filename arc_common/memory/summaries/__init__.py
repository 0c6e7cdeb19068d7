"""Summaries of a session: segments, writers, adoption and background work."""
