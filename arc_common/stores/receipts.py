"""Receipts in SQLite or PostgreSQL."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Text, bindparam, delete, func, or_, select

from arc_common.messages import Message, fields_from_plain, plain_fields
from arc_common.protocols import SessionKey
from arc_common.protocols.conversations import MAIN
from arc_common.protocols.receipts import MOST_RECEIPTS, KeptReceipt
from arc_common.stores.branch_paths import in_conversation, of_conversation
from arc_common.stores.codec import checked_limit, from_body, from_microseconds, to_body, to_microseconds
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Call
from arc_common.stores.database.schema import branches, conversations, receipts
from arc_common.stores.statements.compiler import Statements, insert_for
from arc_common.stores.statements.conversations import same_session, same_user

_MOST_CHARACTERS = 1_000_000
"""A larger snapshot is kept without its messages."""


@cache
def receipt_statements_for(dialect_name: str) -> Statements:
    """Return the statements for `sqlite` or `postgresql` (through psycopg)."""
    at_seq = func.coalesce(bindparam("at_seq", type_=BigInteger), branches.c.head_seq)
    made = bindparam("created_at", type_=BigInteger)
    values: dict[str, Any] = {
        "conversation": conversations.c.conversation,
        "branch": branches.c.branch,
        "at_seq": at_seq,
        "run_id": bindparam("run_id", type_=Text),
        "caller_id": conversations.c.caller_id,
        "created_at": made,
        "body": bindparam("body", type_=Text),
    }
    # a conversation created later than a request with stored messages is another one with the same id
    there = (
        select(*values.values())
        .select_from(conversations.join(branches, of_conversation()))
        .where(
            *same_session(),
            same_user(),
            or_(conversations.c.created_at <= made, bindparam("at_seq", type_=BigInteger) == 0),
        )
    )
    mine = in_conversation(receipts)
    last = (
        select(receipts.c.created_at)
        .where(*mine)
        .order_by(receipts.c.created_at.desc())
        .offset(MOST_RECEIPTS)
        .limit(1)
        .scalar_subquery()
    )
    of_user = select(conversations.c.conversation).where(
        conversations.c.caller_id == bindparam("caller_id"), same_user()
    )
    names = ("run_id", "created_at", "at_seq", "branch", "body")
    branch = bindparam("one_branch", type_=BigInteger)
    return Statements(
        dialect_name,
        {
            "keep": insert_for(dialect_name)(receipts).from_select(list(values), there).on_conflict_do_nothing(),
            "there": select(conversations.c.created_at).where(*same_session(), same_user()),
            "trim": delete(receipts).where(*mine, receipts.c.created_at <= last),
            "find": select(*(receipts.c[name] for name in names))
            .select_from(receipts.join(conversations, conversations.c.conversation == receipts.c.conversation))
            .where(*mine, *same_session(), same_user(), or_(branch < 0, receipts.c.branch == branch))
            .order_by(receipts.c.created_at.desc(), receipts.c.run_id)
            .limit(bindparam("row_limit", type_=BigInteger)),
            "drop": delete(receipts).where(*mine),
            "drop_of_user": delete(receipts).where(
                receipts.c.caller_id == bindparam("caller_id"), receipts.c.conversation.in_(of_user)
            ),
            "drop_of_caller": delete(receipts).where(receipts.c.caller_id == bindparam("caller_id")),
        },
    )


class SqlReceipts:
    """A `ReceiptStore` on the tables of a `SqlStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = receipt_statements_for(database.dialect)

    def keep(self, key: SessionKey, receipts: Sequence[KeptReceipt]) -> bool:
        """See `ReceiptStore.keep`."""
        place = self._database.place(key, MAIN)
        calls: list[Call] = []
        for one in receipts:
            at = {"at_seq": one.at_seq, "run_id": one.run_id, "created_at": to_microseconds(one.created_at)}
            calls.append((self._sql.keep, {**place, **at, "body": _body(one)}))
        calls += [(self._sql.trim, place), (self._sql.there, place)]
        *_, there = self._database.transact(lambda transaction: transaction.commit(*calls))
        return bool(there)

    def find(self, key: SessionKey, *, limit: int) -> list[KeptReceipt]:
        """See `ReceiptStore.find`."""
        checked_limit("limit", limit, least=1)
        branch = -1 if key.branch is None else key.branch
        asked = {**self._database.place(key, MAIN), "one_branch": branch, "row_limit": limit}
        return [_from_row(row) for row in self._database.read((self._sql.find, asked))]

    def forget(self, caller_id: str, *, user_id: str | None, whole: bool = False) -> None:
        """See `ReceiptStore.forget`."""
        statement = self._sql.drop_of_caller if whole else self._sql.drop_of_user
        drop: Call = (statement, {"caller_id": caller_id, "user_id": user_id})
        self._database.transact(lambda transaction: transaction.commit(drop))

    def dropping(self, place: Any) -> list[Call]:
        """Return the calls that remove a conversation's receipts."""
        return [(self._sql.drop, place)]


def _body(kept: KeptReceipt) -> str:
    messages = [
        {**plain_fields(one), "role": one.role.value, "id": one.id, "created_at": one.created_at}
        for one in kept.messages
    ]
    body = to_body({"receipt": kept.receipt, "messages": messages}, field="receipt")
    if len(body) > _MOST_CHARACTERS:
        body = to_body({"receipt": kept.receipt, "messages": []}, field="receipt")
    return body


def _from_row(row: Sequence[Any]) -> KeptReceipt:
    run_id, created_at, at_seq, branch, body = row
    kept = from_body(body)
    messages = tuple(Message(**fields_from_plain(plain)) for plain in kept["messages"])
    return KeptReceipt(run_id, from_microseconds(created_at), at_seq, kept["receipt"], messages, branch)
