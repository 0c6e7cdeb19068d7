"""The inspector: pages that show a model's requests, and in which people review, edit and forget."""

from arc_common.server.inspector.app import build_inspector

__all__ = ["build_inspector"]
