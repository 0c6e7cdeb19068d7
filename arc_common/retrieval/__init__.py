"""Finding: by words, by meaning, and by both."""
