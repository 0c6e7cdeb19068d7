"""Every SQL statement of the summary store, built with SQLAlchemy Core and compiled once per database."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Executable,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql

from arc_common.stores.branch_paths import Along, in_conversation, is_active
from arc_common.stores.codec import MESSAGE_COLUMNS
from arc_common.stores.database.schema import (
    IS_FACT,
    IS_UNCOVERED,
    IS_UNFINISHED,
    branches,
    conversations,
    facts,
    messages,
    summaries,
    views,
)
from arc_common.stores.statements.compiler import Statements, one_of, upsert
from arc_common.stores.statements.conversations import SUMS, in_session, inside, same_session, same_user
from arc_common.stores.statements.records import listed, pins_of
from arc_common.stores.statements.summary_rows import (
    EMPTY_SEGMENT,
    FACT_COLUMNS,
    LEAF_COLUMNS,
    SEGMENT_COLUMNS,
    UNGROUNDED,
)

_LEAF, _ROW_LIMIT = (bindparam(name, type_=BigInteger) for name in ("leaf", "row_limit"))


@cache
def summary_statements_for(dialect_name: str) -> Statements:
    """Return the statements for `sqlite` or `postgresql` (through psycopg)."""
    on_main = Reach(in_session, _on_branch, _messages_of_branch, uncovered=IS_UNCOVERED)
    every = {**_reading(dialect_name, on_main), **_leasing(), **_storing(dialect_name), **_erasing()}
    return Statements(dialect_name, {**every, **_changing(dialect_name, inside)})


@cache
def summary_statements_along(dialect_name: str) -> Statements:
    """Return the statements that read along a path, and those that undo everything derived on one branch of it."""
    along = Along(dialect_name)
    over = summaries.alias("over")
    spans = over.c.start_seq <= summaries.c.start_seq, over.c.end_seq >= summaries.c.end_seq
    is_longer = and_(over.c.level == summaries.c.level, over.c.end_seq > summaries.c.end_seq)
    above = select(over.c.level).where(*along.inside(over), *spans, or_(over.c.level > summaries.c.level, is_longer))
    uncovered = ~above.correlate(summaries).exists()
    reach = Reach(along.in_session, along.of_branch, along.messages, uncovered, later=along.inside)
    return Statements(dialect_name, {**_reading(dialect_name, reach), **_changing(dialect_name, along.inside)})


@dataclass(frozen=True, slots=True)
class Reach:
    """The conditions for rows that a session shows, on the main branch alone or along a path."""

    mine: Callable[[Any], tuple[ColumnElement[bool], ...]]
    of_branch: Callable[[], ColumnElement[bool]]
    messages: Callable[..., Any]
    uncovered: Any
    """The condition that no segment that is shown spans this one."""
    later: Callable[[Any], tuple[ColumnElement[bool], ...]] | None = None


def _on_branch() -> ColumnElement[bool]:
    return and_(
        branches.c.conversation == conversations.c.conversation,
        branches.c.branch == bindparam("branch"),
        conversations.c.current_branch == bindparam("branch"),
        is_active(),
    )


def _messages_of_branch(names: Sequence[str], *between: Any, newest: bool) -> Any:
    near = messages.alias("m")
    rows = select(*(near.c[name] for name in names)).where(
        *in_session(near), *(condition(near) for condition in between)
    )
    return rows.order_by(near.c.seq.desc() if newest else near.c.seq).limit(_ROW_LIMIT)


def _reading(dialect_name: str, reach: Reach) -> Mapping[str, Executable]:
    view = _view(reach.mine).add_columns(views.c.boundary).cte("newest")
    boundary = select(view.c.boundary).scalar_subquery()
    after = bindparam("after", type_=BigInteger)
    later = func.max if dialect_name == "sqlite" else func.greatest  # two conditions would read the rows between them
    inside_it = reach.later or inside
    message_in_it = exists().where(
        *inside_it(messages), messages.c.seq.between(summaries.c.start_seq, summaries.c.end_seq)
    )
    mine, holds = reach.mine, _holds(reach)
    session = (
        *(conversations.c[name] for name in ("user_id", "incarnation", "epoch", "facts_version")),
        *(branches.c[name] for name in ("message_count", "total_tokens", "head_seq", "summarized_seq")),
        *(conversations.c[name] for name in ("lease_owner", "lease_fence", "next_branch")),
    )
    adopted = select(view.c.body).scalar_subquery()
    anyone = select(literal(1).label("one")).subquery()  # a session that does not exist yet has pins, too
    this = anyone.outerjoin(conversations, and_(*same_session())).outerjoin(branches, reach.of_branch())
    about = cast(listed(dialect_name, *session), Text)
    state = select(about, pins_of(dialect_name, inside_it), adopted).select_from(this)
    behind = reach.messages(
        MESSAGE_COLUMNS, lambda table: table.c.seq > later(func.coalesce(boundary, 0), after), newest=True
    )
    return {
        "session": select(*session, adopted)
        .select_from(conversations.join(branches, reach.of_branch()))
        .where(*same_session()),
        "state": state,
        # the state is in the first columns of a message: columns of its own would double the time to read the messages
        "state_and_messages": state.add_columns(
            *(literal_column("0" if name == "seq" else "NULL") for name in MESSAGE_COLUMNS[3:])
        ).union_all(select(behind.subquery("o"))),
        "cover": _segments(*mine(summaries), reach.uncovered),
        "segments": _segments(*mine(summaries)),
        "parts": _segments(*mine(summaries), *_within()),
        # the sum keeps SQLite from scanning by level and sorting
        "unfinished": _segments(*mine(summaries), IS_UNFINISHED, summaries.c.level + 0 < 2, message_in_it)
        .order_by(summaries.c.made_by, summaries.c.start_seq, summaries.c.level)
        .limit(_ROW_LIMIT),
        "outlines": reach.messages(("seq", "role", "tokens"), lambda table: table.c.seq > after, newest=False),
        "facts": _facts(
            reach,
            *mine(facts),
            _is_before(facts),
            or_(bindparam("ungrounded", type_=BigInteger) == 1, facts.c.status == ""),
            or_(bindparam("superseded", type_=BigInteger) == 1, and_(*holds), facts.c.status == UNGROUNDED),
        ).limit(_ROW_LIMIT),
        "facts_of_keys": _facts(
            reach,
            facts.c.conversation
            == select(conversations.c.conversation).where(*same_session(), same_user()).scalar_subquery(),
            one_of(facts.c.folded_key, "keys", Text, dialect_name),
            facts.c.status == "",
            or_(
                and_(_LEAF > 0, facts.c.leaf_start > _LEAF),
                and_(*mine(facts), _is_before(facts), *holds),
            ),
        ).limit(_ROW_LIMIT),
        "overlapping": _segments(
            *mine(summaries),
            summaries.c.level == bindparam("level"),
            summaries.c.start_seq <= bindparam("end_seq", type_=BigInteger),
            summaries.c.end_seq >= bindparam("start_seq", type_=BigInteger),
        ).add_columns(summaries.c.branch, summaries.c.point_seq),
        "known_facts": _known_facts(
            *in_conversation(facts),
            one_of(facts.c.fact_id, "ids", Text, dialect_name),
            or_(facts.c.leaf_start > _LEAF, and_(*mine(facts), *holds)),
        ),
        "segment_points": select(summaries.c.branch, summaries.c.point_seq).where(
            *in_conversation(summaries),
            summaries.c.start_seq <= bindparam("end_seq", type_=BigInteger),
        ),
    }


def _leasing() -> Mapping[str, Executable]:
    owner = bindparam("owner", type_=Text)
    now, until, worked, due_again = (
        bindparam(name, type_=BigInteger) for name in ("now", "until", "worked", "due_again")
    )
    mine = conversations.c.lease_owner == owner
    free = or_(conversations.c.lease_owner.is_(None), conversations.c.lease_until <= now)
    taken = conversations.c.incarnation, conversations.c.epoch, conversations.c.lease_fence
    held = (*same_session(), same_user(), mine, conversations.c.lease_fence == bindparam("fence", type_=BigInteger))
    # Work that a worker has claimed is due again when its lease ends, and sooner only if something was stored since.
    due, as_claimed = conversations.c.work_due_at, conversations.c.work_due_at == conversations.c.lease_until
    is_due = due <= now, is_active(), free
    next_due = select(conversations.c.conversation).where(*is_due).order_by(due).limit(1)
    first = next_due.with_for_update(skip_locked=True).correlate(None)
    return {
        "claim": update(conversations)
        .where(*same_session(), same_user(), is_active(), or_(free, mine))
        .values(
            lease_owner=owner,
            lease_fence=conversations.c.lease_fence + case((mine, 0), else_=1),
            lease_until=until,
            work_due_at=case((and_(mine, as_claimed), until), else_=due),
        )
        .returning(*taken),
        "due": next_due.with_only_columns(conversations.c.caller_id),
        "claim_due": update(conversations)
        .where(conversations.c.conversation == first.scalar_subquery(), *is_due)
        .values(lease_owner=owner, lease_fence=conversations.c.lease_fence + 1, lease_until=until, work_due_at=until)
        .returning(
            *taken,
            *(conversations.c[name] for name in ("session_id", "caller_id", "user_id", "account_id")),
        ),
        "release": update(conversations)
        .where(*held)
        .values(
            lease_owner=null(),
            lease_until=null(),
            work_due_at=case((and_(worked == 1, as_claimed), due_again), else_=due),
        )
        .returning(conversations.c.epoch),
    }


def _storing(dialect_name: str) -> Mapping[str, Executable]:
    segment = ("conversation", "branch", "caller_id", "point_seq", *SEGMENT_COLUMNS)
    written_again = set(segment) - {"conversation", "branch", "caller_id", "level", "start_seq", "covered"}
    return {
        "lock": select(conversations.c.epoch).where(*same_session()).with_for_update(),
        "write_segment": upsert(dialect_name, summaries, segment, written_again),
        "mark_parts": update(summaries).where(*inside(summaries), *_within()).values(covered=bindparam("is_covered")),
        "write_fact": upsert(dialect_name, facts, facts.columns.keys(), ["heir"]),
        "set_summarized": update(branches)
        .where(*inside(branches))
        .values(summarized_seq=bindparam("summarized_to", type_=BigInteger)),
        "change_ledger": update(conversations)
        .where(*same_session())
        .values(facts_version=conversations.c.facts_version + 1),
        "write_view": upsert(dialect_name, views, views.columns.keys(), ["version", "boundary", "body"]),
        "drop_old_views": delete(views).where(*inside(views), views.c.at_seq < _nth_view(_KEPT_VIEWS)),
    }


_KEPT_VIEWS = 8


def _view(mine: Callable[[Any], tuple[ColumnElement[bool], ...]]) -> Select[Any]:
    """Select the adopted view, which is the newest."""
    return select(views.c.body).where(*mine(views)).order_by(views.c.at_seq.desc(), views.c.version.desc()).limit(1)


def _nth_view(number: int) -> Any:
    """Select the place at which the n-th newest view was adopted."""
    others = views.alias("others")
    return (
        select(others.c.at_seq)
        .where(*inside(others))
        .order_by(others.c.at_seq.desc())
        .limit(1)
        .offset(number - 1)
        .scalar_subquery()
    )


def _changing(dialect_name: str, shown: Callable[[Any], tuple[ColumnElement[bool], ...]]) -> Mapping[str, Executable]:
    """The statements that undo everything derived on one branch; `shown` finds the messages that its path shows."""
    place = _numbers("places", dialect_name)
    start = _numbers("leaves", dialect_name)
    these = (
        *inside(summaries),
        summaries.c.level == 0,
        one_of(summaries.c.start_seq, "leaves", BigInteger, dialect_name),
    )
    message_in_it = exists().where(*shown(messages), messages.c.seq.between(summaries.c.start_seq, summaries.c.end_seq))
    of_leaves = (*inside(facts), one_of(facts.c.leaf_start, "leaves", BigInteger, dialect_name))
    return {
        "view": _view(inside),
        "leaves_over": _leaves_over(place),
        "leaves_citing": select(facts.c.leaf_start)
        .distinct()
        .where(*inside(facts), facts.c.leaf_start > bindparam("least", type_=BigInteger), _cites(dialect_name)),
        "higher_over": select(summaries.c.level, summaries.c.start_seq, summaries.c.end_seq).where(
            *inside(summaries),
            summaries.c.level > 0,
            exists(select(start.c.value).where(start.c.value.between(summaries.c.start_seq, summaries.c.end_seq))),
        ),
        "empty_leaves": update(summaries).where(*these).values({**EMPTY_SEGMENT, "created_at": null()}),
        "empty_view": update(views)
        .where(*inside(views), views.c.at_seq == _nth_view(1))
        .values(body=bindparam("body")),
        "drop_earlier_views": delete(views).where(*inside(views), views.c.at_seq < _nth_view(1)),
        "drop_views_past_end": delete(views).where(
            *inside(views),
            views.c.boundary
            >= select(func.coalesce(func.max(messages.c.seq), 0)).where(*shown(messages)).scalar_subquery(),
        ),
        "drop_bare_leaves": delete(summaries).where(*these, ~message_in_it),
        "drop_segment": delete(summaries).where(
            *inside(summaries), summaries.c.level == bindparam("level"), summaries.c.start_seq == bindparam("start_seq")
        ),
        "fact_ids_inside": select(facts.c.fact_id).where(*of_leaves, IS_FACT),
        "drop_facts": delete(facts).where(*of_leaves),
    }


DERIVED = {"segments": summaries.c.point_seq, "facts": facts.c.point_seq, "views": views.c.at_seq}
"""The points of the rows that are derived from messages."""


def _erasing() -> Mapping[str, Executable]:
    kept, which = (bindparam(name, type_=BigInteger) for name in ("kept", "which"))
    every = {name: delete(point.table).where(*in_conversation(point.table)) for name, point in DERIVED.items()}
    return {
        **{f"drop_all_{name}": statement for name, statement in every.items()},
        **{
            f"drop_{name}_after": every[name].where(point.table.c.branch == which, point > kept)
            for name, point in DERIVED.items()
        },
        "reset": update(branches).where(*inside(branches)).values(dict.fromkeys(("summarized_seq", *SUMS), 0)),
    }


def _leaves_over(changed: Any) -> Select[Any]:
    """Select the starts of the leaves that cover some messages."""
    nearest = summaries.alias("nearest")
    place = changed.c.value
    begin = (
        select(func.max(nearest.c.start_seq))
        .where(*inside(nearest), nearest.c.level == 0, nearest.c.start_seq <= place)
        .scalar_subquery()
    )
    return (
        select(summaries.c.start_seq)
        .distinct()
        .select_from(changed.join(summaries, and_(summaries.c.level == 0, summaries.c.start_seq == begin)))
        .where(*inside(summaries), summaries.c.end_seq >= place)
    )


def _within() -> tuple[ColumnElement[bool], ...]:
    return (
        summaries.c.level == bindparam("level_below"),
        summaries.c.start_seq >= bindparam("from_seq", type_=BigInteger),
        summaries.c.start_seq <= bindparam("to_seq", type_=BigInteger),
    )


def _segments(*conditions: Any) -> Any:
    return select(*(summaries.c[name] for name in SEGMENT_COLUMNS)).where(*conditions)


def _facts(reach: Reach, *conditions: Any) -> Any:
    columns = (facts.c[name] for name in FACT_COLUMNS)
    order = (facts.c[name].desc() for name in ("importance", "valid_from", "leaf_start", "fact_id"))
    return select(*columns, _in_its_place(reach)).where(*conditions, IS_FACT).order_by(*order)


def _later(reach: Reach, named: Any) -> tuple[Select[Any], Any]:
    """Select the rows that end a fact by one of its names: those of later leaves, and the own leaf's tombstones."""
    later = facts.alias("later")
    # the sum keeps PostgreSQL from another index, which it takes for as good before it has statistics
    shown = reach.later(later) if reach.later else (later.c.branch + 0 == facts.c.branch,)
    return select(later.c.slot).where(
        later.c.conversation == facts.c.conversation,
        *shown,
        later.c.caller_id == facts.c.caller_id,
        later.c.ends == named,
        tuple_(later.c.leaf_seq, later.c.tombstone * later.c.place) > tuple_(facts.c.leaf_seq, 0),
    ), later


_NAMES = (facts.c.slot, facts.c.folded_key)
"""The columns by which rows end a fact; each is asked alone, because no database uses an index for both."""


def _holds(reach: Reach) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that a fact is grounded and nothing ends it, or ended it before a leaf if one is given."""
    found = (_later(reach, named) for named in _NAMES)
    return facts.c.status == "", *(~rows.where(_is_before(one)).correlate(facts).exists() for rows, one in found)


def _is_before(table: Any) -> ColumnElement[bool]:
    """Return the condition that a row is of an earlier leaf than the given one, if one is given."""
    return or_(_LEAF == 0, table.c.leaf_start < _LEAF)


def _in_its_place(reach: Reach) -> Any:
    """Select the id of a fact's successor: "" if it ended without one, NULL if it is valid."""
    ids = []
    for rows, later in (_later(reach, named) for named in _NAMES):
        named = rows.with_only_columns(func.coalesce(later.c.fact_id, later.c.heir, ""))
        first = named.order_by(later.c.leaf_seq, later.c.place).limit(1)
        ids.append(first.correlate(facts).scalar_subquery())
    return func.coalesce(*ids)


def _known_facts(*conditions: Any) -> Any:
    """Select facts, each once for each slot that it ended."""
    ended = facts.alias("ended")
    beside = and_(
        ended.c.conversation == facts.c.conversation,
        ended.c.branch == facts.c.branch,
        ended.c.leaf_seq == facts.c.leaf_seq,
        ended.c.heir == facts.c.fact_id,
    )
    known = (facts.c.fact_id, facts.c.slot, facts.c.folded_key, facts.c.leaf_start > _LEAF)
    leaf = (facts.c[name] for name in LEAF_COLUMNS)
    return select(*known, *leaf, ended.c.slot).select_from(facts.outerjoin(ended, beside)).where(*conditions)


def _numbers(name: str, dialect_name: str) -> Any:
    """Return a parameter of many numbers as a table."""
    if dialect_name == "sqlite":
        return func.json_each(bindparam(name)).table_valued("value")
    return func.unnest(bindparam(name, type_=ARRAY(BigInteger))).table_valued("value").render_derived()


def _cites(dialect_name: str) -> ColumnElement[bool]:
    """Return the condition that one of a fact's sources is among the ids."""
    if dialect_name == "sqlite":
        source = func.json_each(facts.c.sources).table_valued("value", name="source")
        given = func.json_each(bindparam("message_ids")).table_valued("value", name="given")
        return exists(select(source.c.value).where(source.c.value.in_(select(given.c.value))))
    ids = bindparam("message_ids", type_=ARRAY(Text))
    return func.jsonb_exists_any(cast(facts.c.sources, postgresql.JSONB), ids)
