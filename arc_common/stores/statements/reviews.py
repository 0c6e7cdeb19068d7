"""The SQL statements for the review queue, compiled once per database."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Text, bindparam, delete, or_, select, tuple_, update

from arc_common.memories import MemoryStatus
from arc_common.protocols.review import Candidate, CandidateStatus
from arc_common.stores.codec import from_body, from_microseconds, to_body, to_microseconds
from arc_common.stores.database.schema import IS_REVIEWED, records, scopes
from arc_common.stores.statements.compiler import Statements, in_scope, insert_for, scopes_within
from arc_common.stores.statements.memory_rows import MEMORY

CANDIDATE = "candidate"
"""The kind of the scopes and records of answers."""

POLICY = "policy"
"""The kind of the scope of a caller's policy; each of its values is a record with the value's name as its id."""

_COLUMNS = ("record_id", "kind", "status", "source", "name", "reviewer", "created_at", "body")


def candidate_body(candidate: Candidate) -> str:
    """Return the parts of an answer that no statement compares."""
    reviewed = candidate.reviewed_at
    body = {
        "query": candidate.query,
        "response": candidate.response,
        "run_id": candidate.run_id,
        "comment": candidate.comment,
        "reviewed_at": None if reviewed is None else to_microseconds(reviewed),
    }
    return to_body(body, field="candidate")


def candidate_from_row(row: Sequence[Any]) -> Candidate:
    """Read a row of the statement `one` or `page`."""
    scope, user_id, session_id, record_id, kind, status, channel, document_id, reviewer, created_at, body = row
    said = from_body(body)
    is_memory = kind == MEMORY
    kept = said.get("metadata", {}) if is_memory else said
    reviewed = said.get("reviewed_at")
    return Candidate(
        id=f"{bytes(scope).hex()}-{record_id}",  # record ids are unique within their scope only
        kind="memory" if is_memory else "answer",
        status=CandidateStatus.INGESTED if status == MemoryStatus.ACTIVE else CandidateStatus(status),
        query="" if is_memory else said["query"],
        response=said["text"] if is_memory else said["response"],
        captured_at=from_microseconds(created_at),
        run_id=record_id if is_memory else said["run_id"],
        session_id=session_id or None,
        user_id=user_id or None,
        channel=channel or "",
        document_id=None if is_memory else document_id,
        reviewer=kept.get("reviewed_by") if is_memory else reviewer,
        comment=kept.get("review_comment", "") if is_memory else said["comment"],
        reviewed_at=None if is_memory or reviewed is None else from_microseconds(reviewed),
    )


@cache
def review_statements_for(dialect_name: str) -> Statements:
    """Return the statements for `sqlite` or `postgresql` (through psycopg)."""
    upsert = insert_for(dialect_name)
    named = ("scope", "caller_id", "session_id", "user_id", "kind")
    opened: dict[str, Any] = {
        **{name: bindparam(name) for name in named},
        "version": bindparam("now"),
        "purged": bindparam("now"),
    }
    one = *in_scope(records), records.c.record_id == bindparam("record_id")
    is_candidate = or_(records.c.kind == CANDIDATE, records.c.kind == MEMORY)
    given = ("scope", "record_id", "caller_id", "kind", "created_at", "body")
    new: dict[str, Any] = {"revision": 1, "type": "", "importance": 0.5, "version": 1}
    new |= {**{name: bindparam(name) for name in given}, "valid_from": bindparam("created_at")}
    answer = upsert(records).values({**new, "status": bindparam("status"), "source": bindparam("source")})
    value = upsert(records).values({**new, "status": MemoryStatus.ACTIVE.value})
    columns = *(scopes.c[name] for name in ("scope", "user_id", "session_id")), *(records.c[name] for name in _COLUMNS)
    of_scope = (records.c.scope == scopes.c.scope) & (records.c.caller_id == scopes.c.caller_id)
    candidates = select(*columns).select_from(records.join(scopes, of_scope))
    user, channel = (bindparam(name, type_=Text) for name in ("whose", "channel"))
    place = tuple_(records.c.created_at, records.c.scope, records.c.record_id)
    after = tuple_(
        bindparam("after", type_=BigInteger),
        bindparam("after_scope", type_=records.c.scope.type),
        bindparam("after_id", type_=Text),
    )
    queued = (records.c.caller_id == bindparam("caller_id"), records.c.status == bindparam("status"), IS_REVIEWED)
    within = (scopes.c.kind == CANDIDATE, *scopes_within(scopes, "session_id", "user_id"))
    mine = records.c.scope.in_(select(scopes.c.scope).where(*within)), records.c.caller_id == bindparam("caller_id")
    return Statements(
        dialect_name,
        {
            # locks a scope that is there, or a deletion could remove it before the candidate is in it
            "open_scope": upsert(scopes)
            .values(opened)
            .on_conflict_do_update(index_elements=[scopes.c.scope], set_={"version": scopes.c.version}),
            "put": answer.on_conflict_do_nothing(index_elements=records.primary_key),
            "one": candidates.where(*one, is_candidate),
            "page": candidates.where(
                *queued,
                is_candidate,
                or_(user == "", scopes.c.user_id == user),
                or_(channel == "", records.c.source == channel),
                place > after,
            )
            .order_by(records.c.created_at, records.c.scope, records.c.record_id)
            .limit(bindparam("row_limit", type_=BigInteger)),
            "decide": update(records)
            .where(*one, records.c.kind == CANDIDATE, records.c.status == CandidateStatus.PENDING.value)
            .values(
                status=bindparam("new_status"),
                reviewer=bindparam("reviewer"),
                name=bindparam("document_id"),
                body=bindparam("body"),
                version=records.c.version + 1,
            )
            .returning(records.c.record_id),
            "erase_answers": delete(records).where(*mine).returning(records.c.name),
            "erase_scopes": delete(scopes).where(*within),
            "policy": select(records.c.record_id, records.c.body).where(*in_scope(records)),
            "set_policy": value.on_conflict_do_update(
                index_elements=records.primary_key, set_={"body": value.excluded.body}
            ),
            "drop_policy": delete(records).where(*in_scope(records)),
            "drop_policy_scope": delete(scopes).where(*in_scope(scopes)),
        },
    )
