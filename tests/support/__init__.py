"""Helpers of several tests: databases, servers, random conversations, and the rules of model providers."""
