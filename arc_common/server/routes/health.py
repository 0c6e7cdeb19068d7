"""Reports whether the server is up and works. No token is needed."""

from starlette.requests import Request

from arc_common.engine.context_engine import ContextEngine
from arc_common.server.models import HealthOut
from arc_common.server.problems import NotReadyError


async def healthz() -> HealthOut:
    """Answer while the process runs."""
    return HealthOut(status="ok")


async def readyz(request: Request) -> HealthOut:
    """Answer with 200 if the store and the models work, otherwise with 503 and the names of the parts that don't."""
    engine: ContextEngine = request.scope["arc_engine"]
    health = await engine.ahealth()
    if health.ok:
        return HealthOut(status="ok")
    raise NotReadyError(sorted(health.problems))
