"""The inspector: pages that show what a model was told, and in which people govern what it will be told."""

from arc_common.server.inspector.app import build_inspector

__all__ = ["build_inspector"]
