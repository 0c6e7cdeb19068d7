"""The `arc` command."""
