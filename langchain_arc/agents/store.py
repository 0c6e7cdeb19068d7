"""ArcStore: LangGraph's store of items, in the engine's database."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
    tokenize_path,
)
from langgraph.store.base.embed import ensure_embeddings

from arc_common.documents import Document, checked_items
from arc_common.engine.context_engine import ContextEngine, checked_engine
from arc_common.exceptions import InvalidInputError
from arc_common.filters import AllOf, Comparison, Condition, Filter
from arc_common.retrieval.index import SearchMode
from langchain_arc.models import LangChainEmbedder

_PART = "part"
"""The metadata key of an entry's place among the texts of its item; the first one stands for the item."""
_FIRST = Condition(_PART, "eq", 0)
_EXPIRY = -1
"""The part of an entry that holds only an item's time of expiry: a read that extends it need not embed the item."""
_ORDERS: Mapping[str, Comparison] = {"$eq": "eq", "$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


class ArcStore(BaseStore):
    """LangGraph's `BaseStore` over an engine: on SQLite and PostgreSQL, beside the conversations, within one scope.

        agent = create_agent(model, tools, store=ArcStore(engine))

    - Durable on return, and shared by all processes that use the database. Items are visible only in their scope.
    - `search` with a query finds items by their cosines, or by words without an embedder. Items that were not found
      follow, without a score, up to the limit. Without a query, the newest items come first.
    - An item that was put with a `ttl` (minutes) is no longer returned once they have passed; `sweep_ttl` removes it.
      Reads start the time again, unless `refresh_ttl` is false.
    - In a batch, reads see the items stored before it, and of several puts of one key the last one counts.
    - Items are not the engine's documents or memories: no turn shows them, and erasing a caller or user removes them.

    Args:
        caller_id, user_id: As in `ContextEngine.documents_of`.
        index: LangGraph's configuration of searches: `fields` (default: the whole value) and `embed`; by default the
            engine's embedder is used.
        ttl: LangGraph's configuration of lifetimes: `default_ttl` and `refresh_on_read`.

    Raises:
        InvalidInputError: An argument is invalid. In use: a value holds something other than JSON values.
    """

    supports_ttl = True

    def __init__(
        self,
        engine: ContextEngine,
        *,
        caller_id: str = "default",
        user_id: str | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        for name, given in (("index", index), ("ttl", ttl)):
            if given is not None and not isinstance(given, Mapping):
                raise InvalidInputError(name, given, "LangGraph's configuration as a dictionary, or None")
        embed, fields = (index or {}).get("embed"), (index or {}).get("fields") or ["$"]
        if not (embed is None or isinstance(embed, Embeddings | str) or callable(embed)):
            raise InvalidInputError("index.embed", embed, "LangChain's Embeddings, a model's name, or a function")
        self._fields = checked_items("index.fields", fields, str, expected="a list of paths")
        embeddings = None if embed is None else ensure_embeddings(embed)
        self._index = checked_engine(engine).items_of(
            caller_id, user_id=user_id, embedder=None if embeddings is None else LangChainEmbedder(embeddings)
        )
        self._now = engine.clock
        self.index_config = index
        self.embeddings = embeddings
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations; return their results in the same order."""
        given = list(ops)
        results: list[Result] = []
        puts: dict[str, PutOp] = {}
        for op in given:
            match op:
                case GetOp():
                    results.append(self._get(op))
                case SearchOp():
                    results.append(self._search(op))
                case ListNamespacesOp():
                    results.append(self._namespaces(op))
                case PutOp():
                    puts[_id(op.namespace, op.key)] = op
                    results.append(None)
                case _:
                    raise InvalidInputError("ops", op, "LangGraph's GetOp, PutOp, SearchOp or ListNamespacesOp")
        self._put(puts)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Async form of `batch`."""
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Remove the expired items; return their number."""
        ended = AllOf((Condition(_PART, "eq", _EXPIRY), Condition("ends", "lte", self._now().timestamp())))
        ids = [str(entry.metadata["of"]) for entry in self._index.scan(ended)]
        self._index.delete([name for own in ids for name in (own, _expiry_id(own))])
        return len(ids)

    def _get(self, op: GetOp) -> Item | None:
        found = self._alive(self._index.get([_id(op.namespace, op.key)]), refresh=op.refresh_ttl)
        return found[0].item() if found else None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        filters, exact = _filter(op.namespace_prefix, op.filter)
        wanted = op.offset + op.limit
        mode: SearchMode = "dense" if self._index.has_embedder else "lexical"
        scored: dict[str, tuple[_Stored, float | None]] = {}
        if op.query:
            top_k, more = max(wanted, 1) if exact else 100, True
            while more and len(scored) < wanted:
                found = self._index.search(op.query, top_k=top_k, filters=filters, mode=mode)
                more, top_k = len(found) >= top_k, top_k * 4
                kept = [(one, _Stored.of(one.document)) for one in found]
                kept = [(one, stored) for one, stored in kept if _matches(stored.value, op.filter)]
                for one, stored in kept:
                    scored.setdefault(stored.id, (stored, one.score))
        if len(scored) < wanted:
            rest = [_Stored.of(document) for document in self._index.scan(AllOf((_FIRST, *filters.filters)))]
            rest.sort(key=lambda stored: (-stored.updated_at.timestamp(), stored.namespace, stored.key))
            for stored in rest:
                if _matches(stored.value, op.filter):
                    scored.setdefault(stored.id, (stored, None))
        alive = self._alive([stored for stored, _ in scored.values()], refresh=False)
        shown = alive[op.offset : wanted]
        if op.refresh_ttl:
            self._alive(shown, refresh=True)
        return [stored.found(scored[stored.id][1]) for stored in shown]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        stored = self._alive(list(map(_Stored.of, self._index.scan(_FIRST))), refresh=False)
        matching = {one.namespace for one in stored if _all_match(one.namespace, op.match_conditions or ())}
        names = sorted({name[: op.max_depth] for name in matching} if op.max_depth is not None else matching)
        return names[op.offset : op.offset + op.limit]

    def _put(self, puts: Mapping[str, PutOp]) -> None:
        if not puts:
            return
        before = {stored.id: stored for stored in map(_Stored.of, self._index.get(list(puts)))}
        gone = [own for own, op in puts.items() if op.value is None or op.ttl is None]
        self._index.delete([_expiry_id(own) for own in gone] + [own for own in gone if puts[own].value is None])
        parts: list[tuple[str | None, list[Document]]] = []
        for own, op in puts.items():
            if op.value is None:
                continue
            now = self._now()
            created_at = before[own].created_at if own in before else now
            stored = _Stored(own, op.namespace, op.key, dict(op.value), created_at, now, op.ttl)
            parts.append((own, stored.documents(self._texts(op))))
            if op.ttl is not None:
                parts.append((None, [_expiry(own, op.ttl, now)]))
        self._index.replace(parts)

    def _texts(self, op: PutOp) -> list[str]:
        _as_json(op.value)
        if op.index is False:
            return []
        fields = self._fields if op.index is None else op.index
        paths = [field if field == "$" else tokenize_path(field) for field in fields]
        return [text for path in paths for text in get_text_at_path(op.value, path)]

    def _alive(self, found: Sequence["Document | _Stored"], *, refresh: bool) -> list["_Stored"]:
        """Return the items that have not expired, and extend their time if asked to."""
        stored = [_Stored.of(one) if isinstance(one, Document) else one for one in found]
        lasting = [one.id for one in stored if one.ttl is not None]
        if not lasting:
            return stored
        now = self._now()
        expiries = self._index.get([_expiry_id(own) for own in lasting])
        ended = {entry.metadata["of"] for entry in expiries if entry.metadata["ends"] <= now.timestamp()}
        alive = [one for one in stored if one.id not in ended]
        if refresh:
            self._index.replace((None, [_expiry(one.id, one.ttl, now)]) for one in alive if one.ttl is not None)
        return alive


@dataclass(frozen=True, slots=True)
class _Stored:
    """An item as it is stored."""

    id: str
    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    ttl: float | None

    @classmethod
    def of(cls, document: Document) -> "_Stored":
        """Read an item from one of its entries."""
        known = document.metadata
        created, updated = (datetime.fromisoformat(known[name]) for name in ("created_at", "updated_at"))
        value = json.loads(known["value"])
        return cls(known["of"], tuple(known["namespace"]), known["key"], value, created, updated, known["ttl"])

    def documents(self, texts: Sequence[str]) -> list[Document]:
        """Return one entry for each text, and at least one."""
        known: dict[str, Any] = {
            "of": self.id,
            "document_id": self.id,
            "namespace": list(self.namespace),
            "key": self.key,
            "value": _as_json(self.value),
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
            "ttl": self.ttl,
            **{_level(place): label for place, label in enumerate(self.namespace)},
            **{_field(name): value for name, value in self.value.items() if _is_scalar(value)},
        }
        return [
            Document(text, f"{self.id}#{part}" if part else self.id, metadata={**known, _PART: part})
            for part, text in enumerate(texts or [""])
        ]

    def item(self) -> Item:
        """Return it as LangGraph's item."""
        return Item(
            value=self.value,
            key=self.key,
            namespace=self.namespace,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    def found(self, score: float | None) -> SearchItem:
        """Return it as LangGraph's search result."""
        return SearchItem(self.namespace, self.key, self.value, self.created_at, self.updated_at, score)


def _id(namespace: tuple[str, ...], key: str) -> str:
    return sha256(json.dumps([namespace, key]).encode()).hexdigest()


def _expiry_id(own: str) -> str:
    return f"{own}~"


def _expiry(own: str, ttl: float, now: datetime) -> Document:
    ends = (now + timedelta(minutes=ttl)).timestamp()
    return Document("", _expiry_id(own), metadata={"of": own, "ends": ends, _PART: _EXPIRY})


def _as_json(value: Mapping[str, Any] | None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError("value", value, "a dictionary of JSON values") from error


def _level(place: int) -> str:
    return f"namespace.{place}"


def _field(name: str) -> str:
    return f"value.{name}"


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | bool | float) or (isinstance(value, int) and abs(value) < 2**53)


def _filter(prefix: tuple[str, ...], wanted: Mapping[str, Any] | None) -> tuple[AllOf, bool]:
    """Return a filter that the index applies, and whether nothing is left for `_matches` to do."""
    conditions: list[Filter] = [Condition(_level(place), "eq", label) for place, label in enumerate(prefix)]
    exact = True
    for name, value in (wanted or {}).items():
        operators = value if _has_operators(value) else {"$eq": value}
        for operator, operand in operators.items():
            orders = operator in _ORDERS and isinstance(operand, int | float) and not isinstance(operand, bool)
            if "." in name or not (orders or (operator == "$eq" and isinstance(operand, str))):
                exact = False
                continue
            try:
                conditions.append(Condition(_field(name), _ORDERS[operator], operand))
            except InvalidInputError:  # no value can be compared with it in SQL, such as infinity or NUL
                exact = False
    return AllOf(tuple(conditions)), exact


def _has_operators(value: object) -> bool:
    return isinstance(value, Mapping) and any(str(key).startswith("$") for key in value)


def _matches(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Return whether a value matches a filter, by the rules of LangGraph's stores."""
    return all(_equals(_at(value, name), one) for name, one in (wanted or {}).items())


def _at(value: Any, name: str) -> Any:
    """Return the value of a key, or at a path with dots."""
    if not isinstance(value, Mapping) or name in value:
        return value.get(name) if isinstance(value, Mapping) else None
    first, dot, rest = name.partition(".")
    return _at(value.get(first), rest) if dot else None


def _equals(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if _has_operators(wanted):
            return all(_compares(value, operator, operand) for operator, operand in wanted.items())
        return isinstance(value, Mapping) and _matches(value, wanted)
    if isinstance(wanted, list | tuple):
        alike = isinstance(value, list | tuple) and len(value) == len(wanted)
        return alike and all(_equals(one, other) for one, other in zip(value, wanted, strict=True))
    return bool(value == wanted)


def _compares(value: Any, operator: str, operand: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return bool(value == operand) == (operator == "$eq")
    if operator not in _ORDERS:
        raise InvalidInputError("filter", operator, f"one of $ne, {', '.join(_ORDERS)}")
    try:
        one, other = float(value), float(operand)
    except (TypeError, ValueError):
        return False
    return {"$gt": one > other, "$gte": one >= other, "$lt": one < other, "$lte": one <= other}[operator]


def _all_match(namespace: tuple[str, ...], conditions: Sequence[MatchCondition]) -> bool:
    return all(_is_match(namespace, condition) for condition in conditions)


def _is_match(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(label in ("*", own) for own, label in zip(part, path, strict=True))
