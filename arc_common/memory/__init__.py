"""The memory of conversations: summaries, facts, recall and long-term memories."""
