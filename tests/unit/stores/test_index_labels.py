"""Tokens of words and labels of metadata: the same for what is equal, others in another scope."""

from hypothesis import example, given
from hypothesis import strategies as st

from arc_common.filters import Filter, matches
from arc_common.stores.search_index.filters import (
    All,
    Either,
    HasLabel,
    Neither,
    Ordered,
    Tokens,
    Wanted,
    canonical_number,
    new_salt,
    number_of,
    wanted_for,
)
from arc_common.testing.search_index_contract import filters, metadata

TOKENS = Tokens(b"salt")

terms = st.text(st.characters())


def says(wanted: Wanted, labels: set[bytes], held: dict[str, object]) -> bool:
    """What a filter's form answers for an entry."""
    match wanted:
        case HasLabel(some):
            return bool(labels.intersection(some))
        case Ordered(condition, label):
            answer = matches(condition, held)
            assert not answer or label in labels
            return answer
        case All(parts):
            return all(says(part, labels, held) for part in parts)
        case Either(parts):
            return any(says(part, labels, held) for part in parts)
        case Neither(part):
            return not says(part, labels, held)


@given(metadata, filters)
def test_labels_answer_filters(held: dict[str, object], asked: Filter) -> None:
    """As `matches` does, whatever the metadata and the filter."""
    assert says(wanted_for(asked, TOKENS), set(TOKENS.labels(held)), held) == matches(asked, held)


@example("\ud800", "\ud801", b"salt", b"salt")
@given(terms, terms, st.binary(min_size=1, max_size=64), st.binary(min_size=1, max_size=64))
def test_a_token_tells_its_term_and_its_scope(one: str, other: str, salt: bytes, another: bytes) -> None:
    """Equal for equal terms and salts only, and of 8 bytes whatever the term, half a character too."""
    tokens = Tokens(salt)
    assert (tokens.of(one) == tokens.of(other)) == (one == other)
    assert (tokens.of(one) == Tokens(another).of(one)) == (salt.ljust(64, b"\0") == another.ljust(64, b"\0"))
    assert len(tokens.of(one)) == 8
    assert -(2**63) <= number_of(tokens.of(one)) < 2**63


def test_a_term_is_no_label() -> None:
    """Whatever is put together of a key and a value."""
    assert not {TOKENS.of(term) for term in ("k", "kv", "ksv", "k v", "sv")} & set(TOKENS.labels({"k": "v"}))


def test_equal_numbers_are_written_alike() -> None:
    """And others are not, however near they are."""
    assert canonical_number(1.0) == canonical_number(1) == "1"
    assert canonical_number(-0.0) == "0"
    assert canonical_number(1e22) == "1" + "0" * 22
    assert canonical_number(2**53 + 1) != canonical_number(float(2**53))
    assert canonical_number(0.1) != canonical_number(0.1 + 2**-55)


def test_salts_differ() -> None:
    """Each scope has its own."""
    assert len({new_salt() for _ in range(100)}) == 100
