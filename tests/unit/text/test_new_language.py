"""A new language is its own files and a line in the registry: nothing else has words of a language."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import arc_common

WORDS = """
markers: mi mia la estas ne neniam kaj uzanto uzanta forgesu loĝas
stop_words: la kaj
speaker: mi
others: uzanto uzanta
restated: mi mia la estas
negations: ne neniam
forgetting: forgesu memoron
prayers: bonvolu, mi petas
"""
LANGUAGE = """
from arc_common.text.languages.language import Language, Pattern, vocabulary

_WORDS, _PHRASES = vocabulary("toy")
TOY = Language(
    name="Toy", script="latin", **_WORDS,
    verb_ending=Pattern("(?:as|is)$"),
    lead_ins=Pattern("^memoru ke "), lead_outs=Pattern(rf", {_PHRASES['prayers']}$"),
    oneself=Pattern(r"\\b(?:mi|mia)\\b"), joining=Pattern(" kaj (?=mi)"), supposition=Pattern(r"\\beble\\b"),
    lasting=Pattern(r"\\bmi loĝas\\b"), forbidding=Pattern(r"^neniam\\b"), dates={"lundo": "weekday=monday"},
    denying=Pattern(r"\\b(?:ne|neniam)\\b"), forget=Pattern("^forgesu "), said_instead=Pattern(", (?=mi )"),
)
"""
SCRIPT = """
from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.facts.fidelity import is_retold, names_only
from arc_common.memory.own_words import forget_requests
from arc_common.messages import Message
from arc_common.text.languages.registry import detect

def facts(text):
    return [fact.value for fact in extract_facts([Message("user", text)])]

print(
    detect("Mia banko estas Zorobanko").name == "Toy",
    is_retold("La uzanta banko estas Zorobanko", ["Mia banko estas Zorobanko"]),
    is_retold("La uzanto loĝis en Porto", ["Mi loĝas en Porto kaj mi ne manĝas porkon."]),
    is_retold("La uzanto neniam manĝas porkon", ["Memoru ke mi ne manĝas porkon, mi petas"]),
    names_only("forgesu la memoron Porto", "Mi loĝas en Porto"),
    list(forget_requests("Forgesu ke mi loĝas en Porto.")) != [],
    facts("Mi loĝas en Porto.") == ["Mi loĝas en Porto"],
    facts("Neniam rezervu hotelon lundo.") == ["Neniam rezervu hotelon lundo"],
    not is_retold("La uzanta banko estas Zorobanko", ["Eble mia banko estas Zorobanko"]),
)
"""


def judged(folder: Path) -> str:
    """Return what the package in a folder prints of texts in the language."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", SCRIPT]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=environment, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Copy the package; the copy may get further languages."""
    folder = tmp_path / "arc_common"
    shutil.copytree(Path(arc_common.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_a_new_language_is_judged_by_its_own_words(package: Path) -> None:
    assert "True" not in judged(package.parent).split()[:-1]
    languages = package / "text" / "languages"
    (languages / "toy.py").write_text(LANGUAGE, encoding="utf-8")
    (languages / "toy.txt").write_text(WORDS, encoding="utf-8")
    registry = languages / "registry.py"
    registered = registry.read_text(encoding="utf-8").replace("(ENGLISH, ", "(ENGLISH, TOY, ")
    imported = registered.replace("\nfrom", "\nfrom arc_common.text.languages.toy import TOY\nfrom", 1)
    registry.write_text(imported, encoding="utf-8")
    assert judged(package.parent) == " ".join(["True"] * 9)


@pytest.mark.parametrize("name", ["chinese_japanese", "english", "german", "korean"])
def test_a_language_takes_at_most_150_lines_of_code(name: str) -> None:
    source = Path(arc_common.__file__).parent / "text" / "languages" / f"{name}.py"
    assert len(source.read_text(encoding="utf-8").splitlines()) <= 150
