"""What several tests need to look behind the public face: databases as they are, without the engine."""
