"""Every setting is read: found by scanning the source, because `arc settings` must not promise what nothing does."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from arc_common.settings import ArcSettings
from arc_common.settings.base import groups_of, settings_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("arc_common", "langchain_arc", "llamaindex_arc")
GROUPS = groups_of(ArcSettings)
SETTINGS = {setting.name for setting in settings_of(ArcSettings).values()}
CLASSES = {kind.__name__: group for group, kind in GROUPS.items()} | {"ArcSettings": ""}


def names_read(tree: ast.AST, known: Mapping[str, str]) -> Iterator[str]:
    """Each `group.name` and `name` that is read from settings in a piece of source.

    Args:
        tree: The source.
        known: Expressions that hold settings, with the group that they are; `""` for all of them together.
    """
    holders = {**known}
    for _ in range(3):  # an attribute of a variable of an argument
        for node in ast.walk(tree):
            if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
                annotation = ast.unparse(node.annotation).strip("'\"").removesuffix(" | None")
                if annotation in CLASSES:
                    name = node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)
                    holders[name] = holders[f"self.{name}"] = CLASSES[annotation]
            for target, value in _assigned(node):
                if (group := _group_of(value, holders)) is not None:
                    holders[ast.unparse(target)] = group
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (group := _group_of(node.value, holders)) is not None:
            yield f"{group}.{node.attr}" if group else node.attr


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What gets which value, one by one: `a, b = c, d` too."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=False)
            else:
                yield target, node.value


def _group_of(node: ast.expr, holders: Mapping[str, str]) -> str | None:
    """The group that an expression is; `None` if it is none that can be seen."""
    text = ast.unparse(node)
    if text in holders:
        return holders[text]
    if isinstance(node, ast.Attribute) and node.attr in ("settings", "_settings"):
        return ""
    if isinstance(node, ast.Attribute) and node.attr in GROUPS and _group_of(node.value, holders) == "":
        return node.attr
    return None


def derived() -> dict[str, set[str]]:
    """What each property of the settings reads of them: `storage_mode` reads `storage.mode`."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "arc_common" / "settings").glob("*.py"):
        for kind in ast.walk(ast.parse(path.read_text())):
            if isinstance(kind, ast.ClassDef) and kind.name in CLASSES:
                group = CLASSES[kind.name]
                for method in kind.body:
                    if isinstance(method, ast.FunctionDef) and "property" in map(ast.unparse, method.decorator_list):
                        name = f"{group}.{method.name}" if group else method.name
                        found[name] = set(names_read(method, {"self": group}))
    return found


@pytest.fixture(scope="module")
def used() -> set[str]:
    """The settings that something outside the settings reads, itself or by a property."""
    names: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if path.parent.name != "settings":
                names |= set(names_read(ast.parse(path.read_text()), {"settings": ""}))
    properties = derived()
    pending = list(names)
    while pending:
        more = properties.get(pending.pop(), set()) - names
        names |= more
        pending += more
    return names & SETTINGS


def test_the_scan_sees_how_settings_are_read() -> None:
    """By the engine's settings, by a variable, by an argument of a group's type; not by an equal name elsewhere."""
    source = """
def one(runtime, budget: BudgetSettings, made: "ArcSettings"):
    shares, other = runtime.settings.summary, runtime.things
    self._facts = made.facts
    return shares.enabled, budget.recalled, self._facts.related_tokens, made.require_scope, other.rag.top_k, top_k
"""
    seen = set(names_read(ast.parse(source), {"settings": ""}))
    assert seen & SETTINGS == {"summary.enabled", "budget.recalled", "facts.related_tokens", "require_scope"}
    assert derived()["storage_mode"] >= {"storage.mode", "database_url"}


def test_every_setting_is_read(used: set[str]) -> None:
    """A setting that changes nothing would be a false promise."""
    assert sorted(SETTINGS - used) == []
