"""Every SQL statement of the summary store, built with SQLAlchemy Core and compiled once per database. Pure.

All of them take named parameters and filter by `caller_id`. Those that read find the session themselves; those that
write take `row_id`, the session whose row is locked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Executable,
    FromClause,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    insert,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from arc_common.stores.conversations_statements import (
    Statement,
    compiler_for,
    one_of,
    same_session,
    same_user,
    select_messages,
    session_row,
    this_row,
)
from arc_common.stores.schema import IS_HOLDING, IS_UNCOVERED, IS_UNFINISHED, facts, messages, sessions, summaries
from arc_common.stores.summaries_plan import UNGROUNDED
from arc_common.stores.summaries_rows import EMPTY_SEGMENT, FACT_COLUMNS, OUTLINE_COLUMNS, SEGMENT_COLUMNS

__all__ = [
    "MARK_COLUMNS",
    "SummaryStatements",
    "higher_over",
    "leaves_citing",
    "leaves_over",
    "summary_statements_for",
]

MARK_COLUMNS = ("fact_id", "superseded_by", "removed_by")
"""The columns of a `Mark`, in its order."""

InSession = Callable[[Any], tuple[ColumnElement[bool], ...]]
"""Says of a table's rows that they are the session's."""


@dataclass(frozen=True, slots=True)
class SummaryStatements:
    """The statements, named by what they do."""

    # reading
    session: Statement
    messages_behind: Statement
    cover: Statement
    segments: Statement
    parts: Statement
    unfinished: Statement
    outlines: Statement
    facts: Statement
    facts_that_hold: Statement
    facts_grounded: Statement
    facts_not_superseded: Statement
    fact_ids: Statement
    facts_of_ids: Statement
    facts_of_keys: Statement
    facts_of_keys_without: Statement
    # the lease
    acquire: Statement
    release: Statement
    # storing a segment, adopting a view
    lock: Statement
    overlapping: Statement
    marks: Statement
    write_segment: Statement
    mark_parts: Statement
    insert_fact: Statement
    supersede: Statement
    remove_fact: Statement
    set_summarized: Statement
    change_ledger: Statement
    save_view: Statement
    # when messages change
    view: Statement
    leaves_over: Statement
    leaves_citing: Statement
    higher_over: Statement
    empty_leaves: Statement
    drop_bare_leaves: Statement
    drop_segment: Statement
    marks_inside: Statement
    drop_facts: Statement
    take_over: Statement
    take_back_removals: Statement
    # when a session is cleared or deleted
    drop_all_segments: Statement
    drop_all_facts: Statement
    reset: Statement


@cache
def summary_statements_for(dialect_name: str) -> SummaryStatements:
    """The statements for `sqlite` or `postgresql` (through psycopg)."""
    compiled = compiler_for(dialect_name)
    every = {**_reading(dialect_name), **_leasing(), **_storing(dialect_name), **_changing(dialect_name), **_erasing()}
    return SummaryStatements(**{name: compiled(statement) for name, statement in every.items()})


def _reading(dialect_name: str) -> Mapping[str, Executable]:
    boundary = select(sessions.c.boundary).where(*same_session()).scalar_subquery()
    after = bindparam("after", type_=BigInteger)
    later = func.max if dialect_name == "sqlite" else func.greatest  # two conditions would read the rows between them
    message_in_it = exists().where(
        messages.c.session == summaries.c.session,
        messages.c.caller_id == summaries.c.caller_id,
        messages.c.seq.between(summaries.c.start_seq, summaries.c.end_seq),
    )
    in_leaf = facts.c.segment == bindparam("leaf", type_=BigInteger)
    grounded = _is_grounded()
    of_leaf = select(facts.c.fact_id).where(*_in_session(facts), in_leaf, IS_HOLDING).scalar_subquery().correlate(None)
    of_keys = (*_in_session(facts), one_of(facts.c.folded, "keys", Text, dialect_name))
    names = ("user_id", "id", "epoch", "view", "message_count", "total_tokens", "facts_version")
    return {
        "session": select(*(sessions.c[name] for name in names)).where(*same_session()),
        "messages_behind": select_messages()
        .where(*_in_session(messages), messages.c.seq > later(func.coalesce(boundary, 0), after))
        .order_by(messages.c.seq.desc())
        .limit(_row_limit()),
        "cover": _segments(*_in_session(summaries), IS_UNCOVERED).order_by(summaries.c.start_seq),
        "segments": select(*(summaries.c[name] for name in OUTLINE_COLUMNS)).where(*_in_session(summaries)),
        "parts": _segments(*_in_session(summaries), *_within()).order_by(summaries.c.start_seq),
        # the sum keeps SQLite from walking the levels instead, and sorting
        "unfinished": _segments(*_in_session(summaries), IS_UNFINISHED, summaries.c.level + 0 < 2, message_in_it)
        .order_by(summaries.c.made_by, summaries.c.start_seq, summaries.c.level)
        .limit(_row_limit()),
        "outlines": select(messages.c.seq, messages.c.role, messages.c.tokens)
        .where(*_in_session(messages), messages.c.seq > after)
        .order_by(messages.c.seq)
        .limit(_row_limit()),
        "facts": _facts(*_in_session(facts)).limit(_row_limit()),
        "facts_that_hold": _facts(*_in_session(facts), IS_HOLDING).limit(_row_limit()),
        "facts_grounded": _facts(*_in_session(facts), grounded).limit(_row_limit()),
        "facts_not_superseded": _facts(*_in_session(facts), or_(IS_HOLDING, ~grounded)).limit(_row_limit()),
        "fact_ids": _in_order(select(facts.c.fact_id).where(*_in_session(facts), IS_HOLDING)).limit(_row_limit()),
        "facts_of_ids": _facts(*_in_session(facts), one_of(facts.c.fact_id, "ids", Text, dialect_name)),
        "facts_of_keys": _facts(*of_keys, IS_HOLDING),
        "facts_of_keys_without": _facts(
            *of_keys,
            ~in_leaf,
            or_(facts.c.superseded_by.is_(None), facts.c.superseded_by.in_(of_leaf)),
            or_(facts.c.removed_by.is_(None), facts.c.removed_by == bindparam("leaf", type_=BigInteger)),
        ),
    }


def _leasing() -> Mapping[str, Executable]:
    owner = bindparam("owner", type_=Text)
    mine = sessions.c.lease_owner == owner
    return {
        "acquire": update(sessions)
        .where(
            *same_session(),
            same_user(),
            or_(sessions.c.lease_owner.is_(None), mine, sessions.c.lease_until <= bindparam("now", type_=BigInteger)),
        )
        .values(
            lease_owner=owner,
            lease_fence=sessions.c.lease_fence + case((mine, 0), else_=1),
            lease_until=bindparam("until"),
        )
        .returning(sessions.c.id, sessions.c.epoch, sessions.c.lease_fence),
        "release": update(sessions)
        .where(*same_session(), same_user(), mine, sessions.c.lease_fence == bindparam("fence", type_=BigInteger))
        .values(lease_owner=null(), lease_until=null())
        .returning(sessions.c.id),
    }


def _storing(dialect_name: str) -> Mapping[str, Executable]:
    locked = ("user_id", "id", "epoch", "view", "summarized", "lease_owner", "lease_fence")
    names = ("session", "caller_id", *SEGMENT_COLUMNS)
    upsert = (sqlite.insert if dialect_name == "sqlite" else postgresql.insert)(summaries).values(
        {**{name: bindparam(name) for name in names}, "covered": 0}
    )
    one_fact = (*_inside(facts), facts.c.fact_id == bindparam("which"), facts.c.segment != bindparam("leaf"))
    return {
        "lock": select(*(sessions.c[name] for name in locked)).where(*same_session()).with_for_update(),
        "overlapping": _segments(
            *_in_session(summaries),
            summaries.c.level == bindparam("level"),
            summaries.c.start_seq <= bindparam("end_seq", type_=BigInteger),
            summaries.c.end_seq >= bindparam("start_seq", type_=BigInteger),
        ),
        "marks": select(*_mark()).where(
            *_in_session(facts), one_of(facts.c.segment, "leaves", BigInteger, dialect_name)
        ),
        "write_segment": upsert.on_conflict_do_update(
            index_elements=[summaries.c.session, summaries.c.level, summaries.c.start_seq],
            set_={name: upsert.excluded[name] for name in SEGMENT_COLUMNS if name not in ("level", "start_seq")},
        ),
        "mark_parts": update(summaries).where(*_inside(summaries), *_within()).values(covered=bindparam("is_covered")),
        "insert_fact": insert(facts),
        "supersede": update(facts).where(*one_fact).values(superseded_by=bindparam("successor")),
        "remove_fact": update(facts).where(*one_fact, _is_grounded()).values(removed_by=bindparam("leaf")),
        "set_summarized": update(sessions).where(*this_row()).values(summarized=bindparam("summarized_to")),
        "change_ledger": update(sessions).where(*this_row()).values(facts_version=sessions.c.facts_version + 1),
        "save_view": update(sessions)
        .where(*this_row())
        .values(view=bindparam("new_view"), boundary=bindparam("new_boundary")),
    }


def _changing(dialect_name: str) -> Mapping[str, Executable]:
    place = _numbers("places", dialect_name)
    start = _numbers("leaves", dialect_name)
    these = (
        *_inside(summaries),
        summaries.c.level == 0,
        one_of(summaries.c.start_seq, "leaves", BigInteger, dialect_name),
    )
    message_in_it = exists().where(
        *_inside(messages), messages.c.seq.between(summaries.c.start_seq, summaries.c.end_seq)
    )
    of_leaves = (*_inside(facts), one_of(facts.c.segment, "leaves", BigInteger, dialect_name))
    return {
        "view": select(sessions.c.view).where(*this_row()),
        "leaves_over": leaves_over(place, place.c.value, _inside),
        "leaves_citing": leaves_citing(bindparam("least", type_=BigInteger), _cites(dialect_name), _inside),
        "higher_over": higher_over(start.c.value, _inside),
        "empty_leaves": update(summaries).where(*these).values({**EMPTY_SEGMENT, "created_at": null()}),
        "drop_bare_leaves": delete(summaries).where(*these, ~message_in_it),
        "drop_segment": delete(summaries).where(
            *_inside(summaries),
            summaries.c.level == bindparam("level"),
            summaries.c.start_seq == bindparam("start_seq"),
        ),
        "marks_inside": select(*_mark()).where(*of_leaves),
        "drop_facts": delete(facts).where(*of_leaves),
        "take_over": update(facts)
        .where(*_inside(facts), facts.c.superseded_by == bindparam("leaving", type_=Text))
        .values(
            superseded_by=bindparam("successor"),
            removed_by=func.coalesce(facts.c.removed_by, bindparam("remover", type_=BigInteger)),
        ),
        "take_back_removals": update(facts)
        .where(*_inside(facts), one_of(facts.c.removed_by, "leaves", BigInteger, dialect_name))
        .values(removed_by=null()),
    }


def _erasing() -> Mapping[str, Executable]:
    return {
        "drop_all_segments": delete(summaries).where(*_inside(summaries)),
        "drop_all_facts": delete(facts).where(*_inside(facts)),
        "reset": update(sessions)
        .where(*this_row())
        .values(view=null(), boundary=0, summarized=0, facts_version=sessions.c.facts_version + 1),
    }


def leaves_over(changed: FromClause, place: ColumnElement[int], of_session: InSession) -> Select[Any]:
    """The leaves over some messages, by where they begin.

    Args:
        changed: One row for each message.
        place: Its column with the message's `seq`.
        of_session: Says which session.
    """
    nearest = summaries.alias("nearest")
    begin = (
        select(func.max(nearest.c.start_seq))
        .where(*of_session(nearest), nearest.c.level == 0, nearest.c.start_seq <= place)
        .scalar_subquery()
    )
    return (
        select(summaries.c.start_seq)
        .distinct()
        .select_from(changed.join(summaries, and_(summaries.c.level == 0, summaries.c.start_seq == begin)))
        .where(*of_session(summaries), summaries.c.end_seq >= place)
    )


def leaves_citing(least: Any, cites: ColumnElement[bool], of_session: InSession) -> Select[Any]:
    """The leaves behind the place `least` from which facts were read whose sources fit `cites`."""
    return select(facts.c.segment).distinct().where(*of_session(facts), facts.c.segment > least, cites)


def higher_over(leaf: ColumnElement[int], of_session: InSession) -> Select[Any]:
    """The level, start and end of each block and era over the leaves that begin at the places in a column."""
    return select(summaries.c.level, summaries.c.start_seq, summaries.c.end_seq).where(
        *of_session(summaries),
        summaries.c.level > 0,
        exists(select(leaf).where(leaf.between(summaries.c.start_seq, summaries.c.end_seq))),
    )


def _in_session(table: Any) -> tuple[ColumnElement[bool], ...]:
    return table.c.session == session_row(), table.c.caller_id == bindparam("caller_id")


def _inside(table: Any) -> tuple[ColumnElement[bool], ...]:
    return table.c.session == bindparam("row_id"), table.c.caller_id == bindparam("caller_id")


def _within() -> tuple[ColumnElement[bool], ...]:
    return (
        summaries.c.level == bindparam("level_below"),
        summaries.c.start_seq >= bindparam("from_seq", type_=BigInteger),
        summaries.c.start_seq <= bindparam("to_seq", type_=BigInteger),
    )


def _segments(*conditions: Any) -> Any:
    return select(*(summaries.c[name] for name in SEGMENT_COLUMNS)).where(*conditions)


def _facts(*conditions: Any) -> Any:
    return _in_order(select(*(facts.c[name] for name in FACT_COLUMNS)).where(*conditions))


def _in_order(of_facts: Any) -> Any:
    """The most important first, then the newest."""
    return of_facts.order_by(
        facts.c.importance.desc(), facts.c.valid_from.desc(), facts.c.segment.desc(), facts.c.fact_id.desc()
    )


def _is_grounded() -> ColumnElement[bool]:
    return or_(facts.c.removed_by.is_(None), facts.c.removed_by != UNGROUNDED)


def _mark() -> tuple[ColumnElement[Any], ...]:
    return tuple(facts.c[name] for name in MARK_COLUMNS)


def _row_limit() -> Any:
    return bindparam("row_limit", type_=BigInteger)


def _numbers(name: str, dialect_name: str) -> Any:
    """A parameter of many numbers as a table."""
    if dialect_name == "sqlite":
        return func.json_each(bindparam(name)).table_valued("value")
    return func.unnest(bindparam(name, type_=ARRAY(BigInteger))).table_valued("value").render_derived()


def _cites(dialect_name: str) -> ColumnElement[bool]:
    """One of a fact's sources is among the ids."""
    if dialect_name == "sqlite":
        source = func.json_each(facts.c.sources).table_valued("value", name="source")
        given = func.json_each(bindparam("message_ids")).table_valued("value", name="given")
        return exists(select(source.c.value).where(source.c.value.in_(select(given.c.value))))
    ids = bindparam("message_ids", type_=ARRAY(Text))
    return func.jsonb_exists_any(cast(facts.c.sources, postgresql.JSONB), ids)
