"""What is remembered of a conversation."""
