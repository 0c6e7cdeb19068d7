"""Memories as values."""

import math
from datetime import UTC, datetime

import pytest

from arc_common import InvalidInputError
from arc_common.memories import MAX_MEMORY_CHARACTERS, Memory, MemoryStatus, MemoryType, ProposedMemory

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_memory(**values):
    return Memory(**{"id": "m", "text": "text", "created_at": NOW, "valid_from": NOW, **values})


def test_what_is_read_tolerantly():
    """Names may have any case, importance is clamped to 0 to 1, and duplicate sources are merged."""
    memory = a_memory(type="Preference", status="pending", importance=7, sources=[["s", "m"], ("s", "m"), ("s", "n")])
    assert (memory.type, memory.status, memory.importance) == (MemoryType.PREFERENCE, MemoryStatus.PENDING, 1.0)
    assert memory.sources == (("s", "m"), ("s", "n"))
    assert a_memory(importance=-1).importance == 0.0
    assert a_memory(importance=math.inf).importance == 1.0


def test_bad_input():
    cases = [
        ({"id": ""}, "memory.id"),
        ({"text": " \n"}, "memory.text"),
        ({"text": 7}, "memory.text"),
        ({"text": "a\x00b"}, "memory.text"),
        ({"text": "\ud800"}, "memory.text"),
        ({"text": "x" * (MAX_MEMORY_CHARACTERS + 1)}, "memory.text"),
        ({"type": ""}, "memory.type"),
        ({"type": "a\n[x]"}, "memory.type"),
        ({"type": "x" * 33}, "memory.type"),
        ({"status": "maybe"}, "memory.status"),
        ({"importance": math.nan}, "memory.importance"),
        ({"importance": "high"}, "memory.importance"),
        ({"importance": True}, "memory.importance"),
        ({"sources": "s"}, "memory.sources"),
        ({"sources": ["sm"]}, "memory.sources"),
        ({"sources": [("s", "")]}, "memory.sources"),
        ({"created_at": datetime(2026, 1, 1)}, "memory.created_at"),  # noqa: DTZ001 - the invalid value
        ({"valid_from": None}, "memory.valid_from"),
        ({"last_accessed_at": "now"}, "memory.last_accessed_at"),
        ({"superseded_by": ""}, "memory.superseded_by"),
        ({"metadata": [1]}, "memory.metadata"),
    ]
    for values, field in cases:
        with pytest.raises(InvalidInputError) as raised:
            a_memory(**values)
        assert raised.value.field == field


def test_what_holds():
    cases = [
        ({}, True),
        ({"status": "PENDING"}, False),
        ({"status": "REJECTED"}, False),
        ({"superseded_by": "n"}, False),
    ]
    for values, holds in cases:
        assert a_memory(**values).is_current is holds


def test_a_proposal_becomes_a_memory():
    said = datetime(2025, 1, 1, tzinfo=UTC)
    assert ProposedMemory("text").stored_as("m", NOW) == a_memory()
    assert ProposedMemory("text", valid_from=said).stored_as("m", NOW).valid_from == said
    with pytest.raises(InvalidInputError):
        ProposedMemory("").stored_as("m", NOW)


def test_metadata_that_no_json_holds():
    cases = [
        ({"a": math.nan}, "memory.metadata['a']"),
        ({"a": [1, {"b": math.inf}]}, "memory.metadata['a'][1]['b']"),
        ({"a": "\ud800"}, "memory.metadata['a']"),
        ({"\ud800": 1}, "memory.metadata key"),
        ({"a": ("x", "a\x00b")}, "memory.metadata['a'][1]"),
    ]
    for metadata, field in cases:
        with pytest.raises(InvalidInputError) as raised:
            ProposedMemory("text", metadata=metadata).stored_as("m", NOW)
        assert raised.value.field == field
