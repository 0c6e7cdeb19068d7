"""The REST API: `create_app` for a server of its own, `build_router` to mount in another FastAPI application."""

from arc_common.server.access import Role, Token, load_tokens
from arc_common.server.app import build_router, create_app

__all__ = ["Role", "Token", "build_router", "create_app", "load_tokens"]
