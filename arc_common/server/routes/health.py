"""Whether the server lives and works, for whoever runs it. No token is needed, and nothing else is told."""

from starlette.requests import Request

from arc_common.engine.context_engine import ContextEngine
from arc_common.server.models import HealthOut
from arc_common.server.problems import NotReadyError


async def healthz() -> HealthOut:
    """Answer as long as the process lives."""
    return HealthOut(status="ok")


async def readyz(request: Request) -> HealthOut:
    """Answer with 200 if the store and the models work, otherwise with 503 and the names of what does not."""
    engine: ContextEngine = request.scope["arc_engine"]
    health = await engine.ahealth()
    if health.ok:
        return HealthOut(status="ok")
    raise NotReadyError(sorted(health.problems))
