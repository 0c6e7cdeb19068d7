"""Stored and received text is never executed: no pickle, no eval, and no template except constants of arc."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import arc_common
import langchain_arc
import llamaindex_arc

ROOTS = [Path(package.__file__).parent for package in (arc_common, langchain_arc, llamaindex_arc)]
FILES = [path for root in ROOTS for path in sorted(root.rglob("*.py"))]
LOADERS = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "jinja2", "mako", "yaml", "code"}
RUNNERS = {"eval", "exec", "compile", "__import__"}
ALLOWED = {"inspector/app.py": ["imports jinja2"]}
"""The inspector's pages are templates in the package's own files; texts are escaped values in them."""
MAKERS = {"from_string", "Template", "NativeEnvironment", "FunctionLoader", "DictLoader"}
"""Functions that create a template from a text."""
TEMPLATES = {"template", "holding"}
"""Local names of constant SQL texts."""


def broken_rules(tree: ast.AST) -> Iterator[str]:
    """Yield the constructs in a module that could execute or evaluate a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            yield from (f"imports {name}" for name in names if name.partition(".")[0] in LOADERS)
            if isinstance(node, ast.ImportFrom) and node.module == "string":
                yield "imports string"
        elif isinstance(node, ast.Call):
            called = node.func
            name = (
                called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
            )
            if name in MAKERS or (isinstance(called, ast.Name) and name in RUNNERS):
                yield f"calls {name}"
            fills = isinstance(called, ast.Attribute) and called.attr in ("format", "format_map")
            if fills and not is_constant(called.value):
                yield f"fills {ast.unparse(called.value)}"


def is_constant(text: ast.expr) -> bool:
    """Return whether a template is a literal, a constant, a part of one, or a choice of two."""
    if isinstance(text, ast.IfExp):
        return is_constant(text.body) and is_constant(text.orelse)
    if isinstance(text, ast.Subscript):
        return is_constant(text.value)
    return isinstance(text, ast.Constant) or (
        isinstance(text, ast.Name) and (text.id.isupper() or text.id in TEMPLATES)
    )


def test_no_text_is_run() -> None:
    assert len(FILES) > 100
    broken = {
        f"{path.parent.name}/{path.name}": found
        for path in FILES
        if (found := list(broken_rules(ast.parse(path.read_text()))))
    }
    assert broken == ALLOWED


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "from string import Template",
        "eval(message.text)",
        "environment.from_string(message.text)",
        "message.text.format(name=name)",
        "prompts[0].format(name)",
    ],
)
def test_a_broken_rule_is_found(source: str) -> None:
    assert list(broken_rules(ast.parse(source)))
