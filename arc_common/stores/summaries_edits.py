"""What changed messages mean for the summaries and facts made from them, in the transaction that changes them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from arc_common.protocols.summaries import View
from arc_common.stores.database import Database
from arc_common.stores.drivers import Call, Row, Transaction
from arc_common.stores.summaries_plan import Changed, Mark, Touched, inherited, rests_on, without_text
from arc_common.stores.summaries_rows import view_from_text, view_text
from arc_common.stores.summaries_statements import SummaryStatements, summary_statements_for

__all__ = ["SummaryEdits", "taken_back", "touched"]


class SummaryEdits:
    """Finds what is to be undone; its calls are run by whoever holds the session's row lock.

    Args:
        database: Where the tables are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = summary_statements_for(database.dialect)

    def after(
        self, transaction: Transaction, place: Mapping[str, Any], changed: Changed, *, summarized: int
    ) -> list[Call]:
        """The calls that undo what was made from messages that were edited or removed.

        Changes behind what is summarised cost nothing: there is nothing to undo.

        Args:
            transaction: The edit's own.
            place: The session's row.
            changed: The messages.
            summarized: Up to where there may be segments.
        """
        if min(changed.places) > summarized:
            return []
        return self.undo(place, changed, self._touched(transaction, place, changed))

    def _touched(self, transaction: Transaction, place: Mapping[str, Any], changed: Changed) -> Touched:
        many = self._database.many
        over, citing, ((stored_view,),) = transaction.run(
            (self._sql.leaves_over, {**place, "places": many(changed.places)}),
            (
                self._sql.leaves_citing,
                {**place, "least": min(changed.places), "message_ids": many(changed.message_ids)},
            ),
            (self._sql.view, place),
        )
        leaves = sorted({row[0] for row in (*over, *citing)})
        higher: list[Row] = []
        read_from: list[Row] = []
        if leaves:
            these = {**place, "leaves": many(leaves)}
            higher, read_from = transaction.run((self._sql.higher_over, these), (self._sql.marks_inside, these))
        return touched(changed.places, leaves, higher, read_from, stored_view)

    def undo(self, place: Mapping[str, Any], changed: Changed, found: Touched) -> list[Call]:
        """The calls that undo what rests on changed messages, if all of that has been found.

        Args:
            place: The session's row.
            changed: The messages.
            found: What rests on them, with nothing written in between.
        """
        calls: list[Call] = []
        if found.leaves:
            these = {**place, "leaves": self._database.many(found.leaves)}
            for level, start, end in found.higher:
                within = {"level_below": level - 1, "from_seq": start, "to_seq": end}
                calls.append((self._sql.mark_parts, {**place, **within, "is_covered": 0}))
            if found.higher:
                calls.append(
                    (self._sql.drop_segment, [{**place, "level": row[0], "start_seq": row[1]} for row in found.higher])
                )
            calls += [(self._sql.empty_leaves, these), (self._sql.drop_bare_leaves, these)]
            calls += taken_back(self._sql, these, found.marks, found.leaves)
            calls.append((self._sql.change_ledger, place))
        fact_ids = [mark.fact_id for mark in found.marks]
        if found.view and rests_on(found.view, places=(*changed.places, *found.leaves), fact_ids=fact_ids):
            calls.append((self._sql.save_view, {**place, **_stale(found.view, changed)}))
        return calls

    def clear(self, place: Mapping[str, Any]) -> Iterator[Call]:
        """The calls that remove all segments, facts and the view."""
        yield from self.delete(place)
        yield self._sql.reset, place

    def delete(self, place: Mapping[str, Any]) -> Iterator[Call]:
        """The calls that remove all segments and facts, before the session's row goes."""
        yield self._sql.drop_all_segments, place
        yield self._sql.drop_all_facts, place


def touched(
    places: Iterable[int],
    leaves: Iterable[int] | None,
    higher: Iterable[Row] | None,
    marks: Iterable[Row] | None,
    view: str | None,
) -> Touched:
    """Read what rests on messages from the rows that tell it; `None` is no rows."""
    spans = tuple((level, start, end) for level, start, end in higher or ())
    read_from = tuple(Mark(*row) for row in marks or ())
    return Touched(tuple(places), tuple(leaves or ()), spans, read_from, view_from_text(view))


def taken_back(
    sql: SummaryStatements, these: Mapping[str, Any], marks: Sequence[Mark], leaves: Collection[int]
) -> Iterator[Call]:
    """The calls that take leaves' facts from the ledger, with what they superseded and removed."""
    place = {name: value for name, value in these.items() if name != "leaves"}
    yield sql.take_back_removals, these
    if marks:
        yield sql.drop_facts, these
        yield (
            sql.take_over,
            [
                {**place, "leaving": mark.fact_id, "successor": mark.superseded_by, "remover": mark.removed_by}
                for mark in inherited(marks, leaves=leaves)
            ],
        )


def _stale(view: View, changed: Changed) -> dict[str, Any]:
    return {"new_view": view_text(without_text(view, changed)), "new_boundary": view.boundary}
