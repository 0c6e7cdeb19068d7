"""The REST API and the inspector: `create_app` for a server of its own, the others to mount in another application."""

from arc_common.server.access import Role, Token, load_tokens
from arc_common.server.app import build_router, create_app
from arc_common.server.inspector import build_inspector

__all__ = ["Role", "Token", "build_inspector", "build_router", "create_app", "load_tokens"]
