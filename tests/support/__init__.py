"""What several tests need: databases as they are, random conversations, and the rules of model providers."""
