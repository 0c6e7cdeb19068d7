"""Counting tokens, and spending them."""
