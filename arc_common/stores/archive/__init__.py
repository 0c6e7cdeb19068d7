"""Keeps the messages of idle conversations as objects outside the database."""
