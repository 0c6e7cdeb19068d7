"""Provide texts by class for fitting and checking token counters: shared data, files of packages, and generated texts.

Packages are read from the environment that runs the script: Django, Sphinx, Wagtail and django-allauth (translations),
babel (names in all languages of the CLDR), spaCy (example sentences in 70 languages), numpy (code in Python and C,
documentation). `pip install --no-deps` is enough for Sphinx, Wagtail, django-allauth and spaCy.
"""

import ast
import base64
import gzip
import importlib.util
import json
import random
import re
import unicodedata
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["corpora", "weight"]

_TEXT = 1_200  # characters of a text that is cut from a longer one: about a message
_LEAST = 400  # minimum characters of a class
_CLASS = 20_000  # maximum characters of a class, so that none dominates by its size


_WRITTEN = ("ui_", "docs_", "cms_", "mail_", "names_", "spacy_", "ko", "ja", "zh", "en", "ir_xquad", "ir_korquad")
"""Prefixes of the classes of ordinary text in some language."""


def _split(text: str) -> list[str]:
    return text.split()


_HELD_OUT = _split(
    "spacy cms mail ir crosswoz locomo python_numpy css javascript license stubs json_min json_ids emoji_chat"
)
_FITTED_ANYWAY = ("spacy_grc", "spacy_sa")
"""Held-out classes that are fitted, since no other class has Ancient Greek or Sanskrit."""


def weight(name: str) -> float:
    """Return a class's weight in the fit; 0 for classes that only check it.

    English, Korean, Chinese, Japanese, chats, code and tool results weigh most. Lists of names weigh least: they
    represent the scripts that no other class has.
    """
    kind, _, base = name.partition("_")
    if kind not in ("short", "nfd"):
        kind, base = "", name
    if base not in _FITTED_ANYWAY and base.startswith(tuple(_HELD_OUT)):
        return 0.0
    own = 0.15 if base.startswith("names") else 1.0 if base.startswith(("ui", "docs", "spacy")) else 4.0
    return 0.3 if kind == "nfd" else own / 2 if kind == "short" else own


def corpora(data: Path) -> dict[str, list[str]]:
    """Return the texts of each class in a fixed order, none empty."""
    classes: dict[str, list[str]] = {**_shared(data), **_sentences(), **_package_files(), **_names()}
    for package, prefix in (("django", "ui"), ("sphinx", "docs"), ("wagtail", "cms"), ("allauth", "mail")):
        classes |= _translations(package, prefix)
    classes |= _generated(random.Random(7))
    capped = {name: _capped(texts) for name, texts in classes.items() if texts}
    written = {name: texts for name, texts in capped.items() if name.startswith(_WRITTEN)}
    return {**capped, **_decomposed({n: t for n, t in written.items() if not n.startswith("names")}), **_short(written)}


def _capped(texts: list[str]) -> list[str]:
    pieces = [text[i : i + _TEXT] for text in texts for i in range(0, len(text), _TEXT)]
    pieces = [piece for piece in pieces if piece.strip()]
    random.Random(3).shuffle(pieces)
    kept, size = [], 0
    for piece in pieces:
        if size >= _CLASS:
            break
        kept.append(piece)
        size += len(piece)
    return kept


def _read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def _shared(data: Path) -> dict[str, list[str]]:
    classes: dict[str, list[str]] = dict(_read(data / "tokens_text.json.gz"))
    conversations = _read(data / "tools_sgd.json.gz")
    messages = [message for conversation in conversations for message in conversation["messages"]]
    classes["tool_results"] = [m["content"] for m in messages if m["role"] == "tool"]
    classes["tool_calls"] = [json.dumps(m["tool_calls"]) for m in messages if m.get("tool_calls")]
    classes["tool_results_min"] = [_minified(m["content"]) for m in messages if m["role"] == "tool"]
    for name in ("cranfield", "korquad", "xquad_zh"):
        classes[f"ir_{name}"] = list(_read(data / f"ir_{name}.json.gz")["documents"].values())
    classes["crosswoz"] = [t["text"] for chat in _read(data / "facts_crosswoz.json.gz") for t in chat["turns"]]
    classes["sgd"] = [t["text"] for chat in _read(data / "facts_sgd.json.gz") for t in chat["turns"]]
    classes["locomo"] = [t["text"] for chat in _read(data / "recall_locomo.json.gz") for t in chat["turns"]]
    return classes


def _minified(text: str) -> str:
    return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))


def _folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else None


def _translations(package: str, prefix: str) -> dict[str, list[str]]:
    """Return a package's user interface in each of its languages: phrases and short paragraphs without placeholders."""
    root = _folder(package)
    lines: dict[str, list[str]] = defaultdict(list)
    for path in sorted(root.glob("**/locale/*/LC_MESSAGES/*.po")) if root else ():
        for entry in path.read_text(encoding="utf-8").split("\n\n")[1:]:
            found = re.search(r'^msgstr(?:\[0\])? ((?:".*"\n?)+)', entry, re.MULTILINE)
            if found:
                text = "".join(ast.literal_eval(part) for part in re.findall(r'".*"', found.group(1)))
                text = re.sub(r"%\(\w+\)[sd]|%[sd]|\{\w*\}|%%", "", text).strip()
                lines[path.parent.parent.name] += [text] if text else []
    classes: dict[str, list[str]] = {}
    for language, phrases in lines.items():
        random.Random(5).shuffle(phrases)
        if not language.startswith("en") and sum(map(len, phrases)) >= _LEAST:
            classes[f"{prefix}_{language}"] = [" ".join(phrases[i : i + 12]) for i in range(0, len(phrases), 12)]
    return classes


def _names() -> dict[str, list[str]]:
    """Return the names of languages, countries, time zones and months in each language of the CLDR."""
    from babel import Locale, localedata

    classes: dict[str, list[str]] = {}
    for identifier in localedata.locale_identifiers():
        if identifier.startswith("en"):
            continue
        locale = Locale.parse(identifier)
        if locale.territory:
            continue
        names = [*locale.languages.values(), *locale.territories.values(), *locale.months["format"]["wide"].values()]
        names += [zone["city"] for zone in locale.time_zones.values() if "city" in zone]
        if sum(map(len, names)) >= _LEAST:
            random.Random(5).shuffle(names)
            classes[f"names_{identifier}"] = [", ".join(names[i : i + 12]) for i in range(0, len(names), 12)]
    return classes


def _decomposed(classes: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the texts in NFD, with marks apart from letters, as in macOS file names and from some keyboards."""
    return {f"nfd_{name}": [unicodedata.normalize("NFD", text) for text in texts] for name, texts in classes.items()}


def _short(classes: dict[str, list[str]]) -> dict[str, list[str]]:
    """Cut the texts into short messages, which reveal less of a language's average than a page does."""
    rng = random.Random(11)
    return {f"short_{name}": [piece for text in texts for piece in _cut(text, rng)] for name, texts in classes.items()}


def _cut(text: str, rng: random.Random) -> Iterator[str]:
    start = 0
    while start < min(len(text), 300):
        length = rng.choice((8, 15, 30, 60, 100))
        yield text[start : start + length]
        start += length


def _sentences() -> dict[str, list[str]]:
    """Return spaCy's example sentences of the languages with at least 150 characters."""
    root = _folder("spacy")
    if root is None:
        return {}
    classes: dict[str, list[str]] = {}
    for path in sorted(root.glob("lang/*/examples.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        lists = [n.value for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.List)]
        sentences = [s for items in lists for s in ast.literal_eval(items)]
        if sum(map(len, sentences)) >= 150:
            classes[f"spacy_{path.parent.name}"] = sentences
    return classes


def _package_files() -> dict[str, list[str]]:
    """Return code, markup and data files of installed packages."""
    site = [folder.parent for folder in (_folder("django"), _folder("numpy"), _folder("pip")) if folder]
    wanted = {
        "python": ("django/db/models/*.py", "django/core/**/*.py"),
        "python_numpy": ("numpy/lib/*.py", "numpy/ma/*.py"),
        "javascript": ("django/contrib/admin/static/admin/js/*.js",),
        "css": ("django/contrib/admin/static/admin/css/*.css",),
        "html": ("django/contrib/admin/templates/**/*.html",),
        "c": ("numpy/_core/include/numpy/*.h",),
        "rst": ("*.dist-info/METADATA",),
        "license": ("*.dist-info/**/LICENSE*", "*.dist-info/**/COPYING*"),
        "stubs": ("numpy/**/*.pyi",),
        "record_csv": ("django-*.dist-info/RECORD", "numpy-*.dist-info/RECORD"),
    }
    classes: dict[str, list[str]] = defaultdict(list)
    for name, patterns in wanted.items():
        for path in sorted({path for root in site for pattern in patterns for path in root.glob(pattern)}):
            classes[name].append(path.read_text(encoding="utf-8", errors="replace")[:20_000])
    return classes


def _generated(rng: random.Random) -> dict[str, list[str]]:
    """Return what no collection has: identifiers, numbers, logs, emoji, nested JSON."""

    def hexadecimal(n: int) -> str:
        return rng.randbytes(n // 2).hex()

    words = _split("order user session invoice total status active pending shipped customer note created item price")
    levels = ["INFO", "WARNING", "ERROR", "DEBUG"]
    plain = [chr(c) for c in (*range(0x1F600, 0x1F650), *range(0x1F300, 0x1F320), *range(0x1F680, 0x1F6A0))]
    sequences = _split("👨‍👩‍👧‍👦 👩‍💻 🏳️‍🌈 ❤️ ☀️ ✈️ ✅ ⚠️ ➡️ 👍🏽 👋🏿 🤷🏻‍♀️ 🇰🇷 🇩🇪 🇺🇸 🇯🇵 1️⃣ #️⃣ ⏰ ⭐ ✨ ☕ ♻️ 🧑🏾‍🚀 🙏🏼")

    symbols = _split(
        "→ ← ↑ ↓ ⇒ ∀ ∈ ∑ ∏ √ ∞ ≈ ≠ ≤ ≥ ± × ÷ ∂ ∫ ─ │ ┌ ┐ └ ┘ ├ █ ░ ■ □ ● ○ ★ ☆ ✓ ✔ ✗ ✘ ☀ ☎ ♠ ♥ ⚡ ⚽ ☕ ⌘ ™ ℃ №"
    )
    marks = _split("“{}” ‘{}’ «{}» {}… –{} —{} •{} {}€ £{} {}° ©{} {}’s §{} {}½")

    def stamp() -> str:
        return f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"

    def record() -> dict[str, object]:
        return {
            "id": rng.randint(1, 99_999),
            "uuid": str(uuid.UUID(bytes=rng.randbytes(16))),
            rng.choice(words): rng.choice(words),
            f"{rng.choice(words)}_{rng.choice(words)}": round(rng.random() * 1_000, 2),
            "created_at": stamp() + ":00Z",
            "tags": rng.sample(words, 3),
            "nested": {rng.choice(words): rng.random() < 0.5, "value": None},
        }

    def number() -> str:
        return rng.choice((f"{rng.randint(0, 10**6):,}", f"{rng.random() * 100:.3f}", str(rng.randint(0, 10**9))))

    def log() -> str:
        return (
            f"{stamp()}:{rng.randint(0, 59):02},{rng.randint(0, 999):03} {rng.choice(levels)} "
            f"[{rng.choice(words)}.{rng.choice(words)}] request {hexadecimal(16)} from 10.0.{rng.randint(0, 255)}."
            f"{rng.randint(0, 255)} took {rng.randint(1, 900)} ms: {rng.choice(words)} {rng.choice(words)}"
        )

    def url() -> str:
        return (
            f"https://www.{rng.choice(words)}.example.com/{rng.choice(words)}/{rng.randint(1, 9999)}"
            f"?{rng.choice(words)}={hexadecimal(8)}&page={rng.randint(1, 40)}"
        )

    def row() -> str:
        return f"| {rng.choice(words)} | {number()} | {rng.choice(words)} | {rng.random():.1%} |"

    def blank() -> str:
        return rng.choice("\n\n \t") * rng.randint(2, 60)

    def terse(lines: int, line: Callable[[], str]) -> list[str]:
        return ["\n".join(line() for _ in range(lines)) for _ in range(60)]

    def few(choices: str, most: int) -> str:
        return "".join(rng.choices(choices, k=rng.randint(1, most)))

    def many(choices: str, most: int) -> str:
        return " ".join(few(choices, most) for _ in range(12))

    def regex() -> str:
        return "".join(
            rng.choice(
                ("(?:", ")", "[^", "]+", "\\d{1,", "\\w*", "(?=", "$|^", "\\s+", "[A-Z0-9._%-]", ".*?", "{2,}", "\\.")
            )
            for _ in range(12)
        )

    def numbered() -> str:
        return ",".join(str(rng.randint(0, rng.choice((9, 99)))) for _ in range(12))

    def floats() -> str:
        return json.dumps([round(rng.uniform(-1, 1), 4) for _ in range(8)])

    def phone() -> str:
        return f"+{rng.randint(1, 99)}-{rng.randint(1, 99)}-{rng.randint(0, 9999):04}-{rng.randint(0, 9999):04}"

    def name() -> str:
        return rng.choice(("x", "y", "i", "n", "id", "on", *words))

    def statement() -> str:
        return rng.choice(
            (
                f"{name()} = {name()}",
                f"if ({name()}) {{",
                "}",
                f"return {name()};",
                f"{name()}[{name()}]++",
                "else:",
                "end",
            )
        )

    def indented() -> str:
        return "\t" * rng.randint(0, 6) + statement()

    def spaced() -> str:
        return " " * rng.randint(0, 24) + statement()

    def yaml() -> str:
        value = rng.choice((str(rng.randint(0, 99)), "true", name()))
        return f"{'  ' * rng.randint(0, 3)}{rng.choice(('- ', ''))}{name()}: {value}"

    def xml() -> str:
        return f'<{name()} {name()}="{rng.randint(0, 999)}"><{name()}>{rng.randint(0, 999)}</{name()}><b/></r>'

    def checked() -> str:
        return f"- [{rng.choice(' x')}] {name()}\n| {rng.randint(0, 9)} | {name()} | {rng.choice(('yes', 'no', '-'))} |"

    full = "".join(chr(c) for c in (*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B)))
    half = "".join(map(chr, range(0xFF66, 0xFFA0)))

    def emoji() -> str:
        return rng.choice(plain) if rng.random() < 0.6 else rng.choice(sequences)

    return {
        "hex": [hexadecimal(64) for _ in range(60)],
        "uuid": [" ".join(str(uuid.UUID(bytes=rng.randbytes(16))) for _ in range(8)) for _ in range(60)],
        "base64": [base64.b64encode(rng.randbytes(300)).decode() for _ in range(60)],
        "base64_url": [base64.urlsafe_b64encode(rng.randbytes(40)).decode() for _ in range(60)],
        "numbers": [" ".join(number() for _ in range(30)) for _ in range(60)],
        "digits": [
            "".join(f"{rng.randint(0, 10 ** rng.randint(6, 20))}{rng.choice('_,;:|/')}" for _ in range(20))
            for _ in range(60)
        ],
        "blank": ["".join(rng.choice(words) + blank() for _ in range(30)) for _ in range(60)],
        "table": [
            "\n".join(["| a | b | c | d |", "|---|---|---|---|", *(row() for _ in range(12))]) for _ in range(60)
        ],
        "emoji": ["".join(emoji() for _ in range(30)) for _ in range(60)],
        "emoji_chat": [f"{rng.choice(words)} {rng.choice(words)} {emoji()}{emoji()}" for _ in range(200)],
        "symbols": [" ".join(rng.choice(symbols) * rng.choice((1, 1, 2)) for _ in range(30)) for _ in range(60)],
        "typography": [" ".join(rng.choice(marks).format(rng.choice(words)) for _ in range(30)) for _ in range(60)],
        "log": ["\n".join(log() for _ in range(8)) for _ in range(60)],
        "url": ["\n".join(url() for _ in range(8)) for _ in range(60)],
        "json_pretty": [json.dumps([record() for _ in range(3)], indent=2) for _ in range(60)],
        "json_min": [json.dumps([record() for _ in range(4)], separators=(",", ":")) for _ in range(60)],
        "json_ids": [json.dumps({hexadecimal(6): hexadecimal(24) for _ in range(12)}) for _ in range(60)],
        "csv": terse(20, numbered),
        "floats": terse(8, floats),
        "phones": terse(20, phone),
        "regex": terse(8, regex),
        "tabs": terse(40, indented),
        "indented": terse(40, spaced),
        "lines": terse(60, statement),
        "yaml": terse(40, yaml),
        "xml": terse(12, xml),
        "checked": terse(20, checked),
        "full_width": terse(4, lambda: many(full, 9)),
        "half_width": terse(4, lambda: many(half, 9)),
        "jamo": terse(4, lambda: many("ㅋㅎㅠㅜㅇㄱㄴㄷㅅㅈㅡㅏㅗ", 4)),
        "digits_known": terse(4, lambda: many("٠١٢٣٤٥٦٧٨٩", 6) + " " + many("۰۱۲۳۴۵۶۷۸۹", 6) + many("०१२३४५६७८९", 6)),
        "digits_rare": terse(4, lambda: many("๐๑๒๓๔๕๖๗๘๙", 6) + " " + many("௧௨௩௪௫௬௭௮௯", 6)),
        "niqqud": terse(
            4,
            lambda: " ".join(
                "".join(rng.choice("אבגדהוזחטילמנסעפצקרשת") + rng.choice("ְִֵֶַָֹּ") for _ in range(rng.randint(2, 5)))
                for _ in range(12)
            ),
        ),
    }
