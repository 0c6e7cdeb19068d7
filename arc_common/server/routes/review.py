"""The review queue, and its policy."""

from typing import Annotated

from fastapi import Path, Query

from arc_common.exceptions import CandidateNotFoundError
from arc_common.protocols.review import CandidateStatus
from arc_common.server.access import Access, AccessError
from arc_common.server.models import (
    CandidateOut,
    CandidatePage,
    CapturedOut,
    CaptureIn,
    PolicyIn,
    PolicyOut,
    ReviewIn,
)
from arc_common.server.routes.parameters import Caller, Cursor, Limit, UserId

CandidateId = Annotated[str, Path(alias="id", min_length=1, max_length=600, description="The candidate's id.")]


async def get_policy(access: Caller) -> PolicyOut:
    """Return the policy in force."""
    return PolicyOut.of(await access.ingestion.apolicy())


async def set_policy(access: Caller, body: PolicyIn) -> PolicyOut:
    """Change the caller's policy, for all of its users. Needs a token of any user."""
    _check_whole(access)
    return PolicyOut.of(await access.ingestion.aset_policy(**body.model_dump()))


async def reset_policy(access: Caller) -> PolicyOut:
    """Remove the caller's policy, and return the settings' one. Needs a token of any user."""
    _check_whole(access)
    return PolicyOut.of(await access.ingestion.areset_policy())


async def capture_answer(access: Caller, body: CaptureIn, user_id: UserId = None) -> CapturedOut:
    """Capture an answered question. The policy decides whether it becomes a candidate."""
    candidate = await access.ingestion.acapture(
        body.query,
        body.response,
        run_id=body.run_id,
        session_id=body.session_id,
        user_id=access.user(user_id),
        channel=body.channel,
    )
    return CapturedOut(candidate=None if candidate is None else CandidateOut.of(candidate))


async def list_candidates(  # noqa: PLR0917 - FastAPI passes parameters by name
    access: Caller,
    status: CandidateStatus = CandidateStatus.PENDING,
    channel: Annotated[str | None, Query(min_length=1, max_length=255)] = None,
    user_id: UserId = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> CandidatePage:
    """Return a page of candidates, the oldest first."""
    page = await access.ingestion.acandidates(
        status, channel=channel, user_id=access.user(user_id), limit=limit, cursor=cursor
    )
    return CandidatePage(candidates=list(map(CandidateOut.of, page.candidates)), next_cursor=page.next_cursor)


async def approve_candidate(access: Caller, candidate_id: CandidateId, body: ReviewIn) -> CandidateOut:
    """Approve a candidate: an answer becomes a document, a memory is used from now on."""
    await _check_own(access, candidate_id)
    decided = await access.ingestion.aapprove(candidate_id, reviewer=access.token.name, comment=body.comment)
    return CandidateOut.of(decided)


async def reject_candidate(access: Caller, candidate_id: CandidateId, body: ReviewIn) -> CandidateOut:
    """Reject a candidate."""
    await _check_own(access, candidate_id)
    decided = await access.ingestion.areject(candidate_id, reviewer=access.token.name, comment=body.comment)
    return CandidateOut.of(decided)


def _check_whole(access: Access) -> None:
    if access.token.user_id is not None:
        raise AccessError(403, "the policy is the caller's, and the token is for one of its users")


async def _check_own(access: Access, candidate_id: str) -> None:
    """Hide the candidates of other users from a token of one user."""
    own = access.token.user_id
    if own is not None and (await access.ingestion.aget(candidate_id)).user_id != own:
        raise CandidateNotFoundError(candidate_id)
