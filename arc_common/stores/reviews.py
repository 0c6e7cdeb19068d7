"""The review queue and the callers' policies in SQLite or PostgreSQL."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from arc_common.protocols.review import Candidate, CandidatePage, CandidateStatus
from arc_common.protocols.search_index import IndexEntry, Scope
from arc_common.stores.codec import (
    MOST,
    checked_scope,
    from_body,
    key_from_hex,
    page_position,
    page_token,
    scope_place,
    to_body,
    to_microseconds,
)
from arc_common.stores.database.connection import Database
from arc_common.stores.database.drivers import Call, Transaction
from arc_common.stores.search_index.store import EntriesChange, SqlIndexStore
from arc_common.stores.statements.reviews import (
    CANDIDATE,
    POLICY,
    candidate_body,
    candidate_from_row,
    review_statements_for,
)

_BEFORE_ALL: dict[str, Any] = {"scope": b"", "record_id": ""}


class SqlReviews:
    """A `ReviewQueue` on the tables of a `SqlStore`."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime], index: SqlIndexStore) -> None:
        self._database = database
        self._clock = clock
        self._index = index
        self._sql = review_statements_for(database.dialect)

    def put(self, caller_id: str, candidate: Candidate) -> Candidate:
        """See `ReviewQueue.put`."""
        scope = Scope(caller_id, candidate.user_id, candidate.session_id)
        record_id = sha256(candidate.run_id.encode()).hexdigest()[:32]
        row = {
            **scope_place(scope, CANDIDATE),
            "record_id": record_id,
            "status": candidate.status.value,
            "source": candidate.channel,
            "created_at": to_microseconds(candidate.captured_at),
            "now": to_microseconds(self._clock()),
            "body": candidate_body(candidate),
        }

        def work(transaction: Transaction) -> Candidate:
            *_, rows = transaction.commit((self._sql.open_scope, row), (self._sql.put, row), (self._sql.one, row))
            return candidate_from_row(rows[0])

        return self._database.transact(work)

    def get(self, caller_id: str, candidate_id: str) -> Candidate | None:
        """See `ReviewQueue.get`."""
        place = _place_of(candidate_id)
        if place is None:
            return None
        rows = self._database.read((self._sql.one, {"caller_id": caller_id, **place}))
        return candidate_from_row(rows[0]) if rows else None

    def page(
        self,
        caller_id: str,
        *,
        status: CandidateStatus,
        user_id: str | None = None,
        channel: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> CandidatePage:
        """See `ReviewQueue.page`."""
        checked_scope(caller_id, user_id, limit)
        after, place = (-MOST, _BEFORE_ALL) if cursor is None else page_position(cursor, _place_of)
        asked = {
            "caller_id": caller_id,
            "status": status.value,
            "whose": user_id or "",
            "channel": channel or "",
            "after": after,
            "after_scope": place["scope"],
            "after_id": place["record_id"],
            "row_limit": limit + 1,
        }
        found = list(map(candidate_from_row, self._database.read((self._sql.page, asked))))
        shown = found[:limit]
        return CandidatePage(
            tuple(shown), page_token(shown[-1].captured_at, shown[-1].id) if len(found) > limit else None
        )

    def decide(self, caller_id: str, decided: Candidate, *, entries: Sequence[IndexEntry] = ()) -> bool:
        """See `ReviewQueue.decide`."""
        place = _place_of(decided.id)
        if place is None:
            return False
        change = {
            **place,
            "caller_id": caller_id,
            "new_status": decided.status.value,
            "reviewer": decided.reviewer,
            "document_id": decided.document_id,
            "body": candidate_body(decided),
        }

        def work(transaction: Transaction, added: EntriesChange | None = None) -> bool:
            done, *read = transaction.run((self._sql.decide, change), *(added.reading if added else ()))
            if not done:
                return False
            transaction.commit(*(added.writing(read) if added else ()))
            return True

        if not entries:
            return self._database.transact(work)
        return self._index.beside(
            Scope(caller_id),
            "document",
            entries,
            make=lambda added: self._database.transact(lambda transaction: work(transaction, added)),
        )

    def policy(self, caller_id: str) -> Mapping[str, Any] | None:
        """See `ReviewQueue.policy`."""
        rows = self._database.read((self._sql.policy, scope_place(Scope(caller_id), POLICY)))
        return {name: from_body(body)["value"] for name, body in rows} if rows else None

    def set_policy(self, caller_id: str, values: Mapping[str, Any] | None) -> None:
        """See `ReviewQueue.set_policy`; each value is a record, so that changes at the same moment meet."""
        now = to_microseconds(self._clock())
        place = {**scope_place(Scope(caller_id), POLICY), "now": now, "created_at": now}
        if values is None:
            calls: list[Call] = [(self._sql.drop_policy, place), (self._sql.drop_policy_scope, place)]
        else:
            calls = [(self._sql.open_scope, place)]
            for name, value in sorted(values.items()):
                body = to_body({"value": value}, field="policy")
                calls.append((self._sql.set_policy, {**place, "record_id": name, "body": body}))
        self._database.transact(lambda transaction: transaction.commit(*calls))

    def erase(self, scope: Scope) -> None:
        """See `ReviewQueue.erase`."""
        self._database.transact(lambda transaction: transaction.commit(*self.erasing(transaction, scope)))
        if scope.user_id is None and scope.session_id is None:
            self.set_policy(scope.caller_id, None)

    def erasing(self, transaction: Transaction, scope: Scope) -> list[Call]:
        """Remove the answers of a scope and those within it; return the calls that remove their documents.

        Removed first, an answer is locked: one that is being approved names its document by then.
        """
        named = scope_place(scope, CANDIDATE)
        (answers,) = transaction.run((self._sql.erase_answers, named))
        ids = sorted(row[0] for row in answers if row[0] is not None)
        calls: list[Call] = []
        if ids:
            calls = self._index.beside(
                Scope(scope.caller_id),
                "document",
                removed=ids,
                make=lambda entries: entries.writing(transaction.run(*entries.reading)),
            )
        return [*calls, (self._sql.erase_scopes, named)]


def _place_of(named: str) -> dict[str, Any] | None:
    """Return the parameters that name a candidate's record; `None` if the id is no candidate's."""
    key, dash, record_id = named.partition("-") if isinstance(named, str) else ("", "", "")
    scope = key_from_hex(key)
    return {"scope": scope, "record_id": record_id} if dash and scope else None
