"""The demo: one written-out conversation, played through every framework that is installed."""
