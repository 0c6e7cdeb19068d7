"""Removal of the user's own variables from tests of settings."""

import os

import pytest


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith(("ARC_", "RAG_", "CONVO_", "CONVERSATION_")):
            monkeypatch.delenv(name)
