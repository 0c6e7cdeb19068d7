"""Long-term memories of users and sessions."""
