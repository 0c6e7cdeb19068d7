"""Display of a context window in pages and terminals: safe, short, and labelled by speaker."""

import json
import re
import time
from copy import deepcopy
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from arc_common import ContextEngine, TokenBudget
from arc_common.context import ContextWindow, Item, LeftOut, Omission, Receipt, Section, receipt_of
from arc_common.context.display import (
    LOOKS,
    about,
    excerpt,
    messages_by_item,
    render_html,
    render_terminal,
    said,
    shown_items,
    visible,
)
from arc_common.context.receipt import message_items
from arc_common.messages import Message, Role, ToolCall
from arc_common.prompts.context import longest_share
from tests.support.context_windows import CONTROLS, MARKUP, SCRIPTS, TITLES, window_of, window_saying

every_character = st.text(st.characters())


@given(every_character)
def test_control_characters_are_removed(text):
    """Only line ends and tabs stay of all control characters that a terminal or a page would obey."""
    shown = visible(text)
    shown.encode()
    acting = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029]
    assert not {*map(ord, shown)} & {*acting} - {*map(ord, "\t\n")}
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "␛[31m"),
        ("a\x00b\x7f", "a␀b␡"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
        ("\x9b2J", "�2J"),
        ("\u202egnp.exe", "�gnp.exe"),
        ("hi\U000e0068\U000e0069", "hi��"),
        ("\ud83d", "�"),
        (SCRIPTS, SCRIPTS),
    ],
    ids=["escape", "controls", "line ends", "C1", "override", "tags", "half a pair", "scripts"],
)
def test_control_characters_are_replaced_by_visible_ones(text, shown):
    assert visible(text) == shown


@given(every_character, st.integers(1, 50))
def test_an_excerpt_keeps_within_its_length(text, most):
    shown = excerpt(text, most)
    assert len(shown) <= most
    assert len(text) > most or shown == visible(text)


@given(st.lists(st.integers(0, 1_000), max_size=30), st.integers(0, 5_000))
def test_shares_are_even_and_none_is_wasted(lengths, total):
    """The shares fit the total; if any text is cut, one more character each would not fit."""
    share = longest_share(lengths, total)
    assert sum(min(length, share) for length in lengths) <= total
    if any(length > share for length in lengths):
        assert sum(min(length, share + 1) for length in lengths) > total


@pytest.mark.parametrize(("name", "expected"), [("documents", ("a", "b")), ("history", ("c", "d"))])
def test_what_matters_most_is_shown(name, expected):
    shown, others = shown_items(Section(name, 1, 1, tuple(Item("x", text) for text in "abcd")), 2)
    assert tuple(item.text for item in shown) == expected
    assert others == 2


def test_messages_are_found_for_their_items():
    window = window_saying("look")
    found = messages_by_item(window)
    items = {section.name: section.items for section in window.sections}
    assert [found[id(item)].role for item in items["history"]] == ["user", "assistant", "tool"]
    assert [found[id(item)].role for item in (*items["user_message"], *items["current_turn"])] == ["user", "assistant"]
    assert about(items["history"][0], found[id(items["history"][0])]) == "user · look · look"
    assert said(items["history"][1], found[id(items["history"][1])]) == 'look\n→ look({"look": "look"})\n→ look(look)'
    assert said(items["history"][2], found[id(items["history"][2])]) == "look\n[image]"
    assert said(items["current_turn"][0], found[id(items["current_turn"][0])]) == "→ look({})"


def test_a_window_made_by_others_has_items_alone():
    window = window_of(["a", "b"], input_tokens=100)
    strange = type(window)(window.messages[1:], window.sections, window.total_tokens, window.receipt)
    assert messages_by_item(strange) == {}
    assert about(window.sections[0].items[0]) == "message · m0"


def test_a_calls_arguments_may_hold_anything():
    call = Message("assistant", None, tool_calls=(ToolCall("f", {"n": {1}}),))
    assert said(Item("message", ""), call) == '→ f({"n": "{1}"})'


SAID = (Message(Role.USER, "hello", id="m0"), Message(Role.ASSISTANT, "hi", id="m1"))
ITEMS = (Item("message", "hello", "m0", 3), Item("message", "hi", "m1", 2))


def test_messages_as_items_are_like_a_tuple_of_items():
    items = message_items(SAID, [3, 2])

    assert (len(items), items[1], items[-2:], tuple(items)) == (2, ITEMS[1], ITEMS, ITEMS)
    assert items == ITEMS
    assert items == message_items(SAID, [3, 2])
    assert items != message_items(SAID, [3, 1])
    assert repr(items) == repr(ITEMS)
    assert deepcopy(items) == items
    assert Section("history", 5, 9, items) == Section("history", 5, 9, ITEMS)
    assert Section("history", 5, 9, ITEMS) == Section("history", 5, 9, items)


def test_the_items_of_messages_are_the_same_objects_each_time():
    items = message_items(SAID, [3, 2])

    assert items[0] is items[0] is next(iter(items))


@pytest.mark.parametrize(
    ("messages", "sections", "shown"),
    [
        (
            SAID,
            (Section("system", 0, 9), Section("history", 1_500, 9)),
            "1,500 of 4,000 tokens, 2 messages: history 1,500",
        ),
        (
            SAID[:1],
            (Section("user_message", 3, 9), Section("facts", 7, 9)),
            "10 of 4,000 tokens, 1 message: user_message 3, facts 7",
        ),
        ((), (), "0 of 4,000 tokens, 0 messages: nothing"),
    ],
    ids=["two", "one", "none"],
)
def test_a_window_says_on_one_line_what_it_takes(messages, sections, shown):
    total = sum(section.tokens for section in sections)

    window = ContextWindow(messages, sections, total, Receipt((), input_tokens=4_000))

    assert repr(window) == f"<ContextWindow {shown}>"


def test_a_receipts_lines_tell_documents_from_what_was_recalled():
    kinds = ("message", "document", "fact", "memory", "artifact", "recalled")
    sections = (
        Section("documents", 9, 9),
        Section("recalled", 7, 8, (Item("recalled", "secret", "m", 5, {"bm25": 0.5}),)),
    )
    receipt = Receipt((), tuple(Omission(kind, kind, 3, "no room for it") for kind in kinds), sections=sections)

    documents, recalled = (json.loads(line.split(maxsplit=2)[2]) for line in receipt.sse_lines()[1:])

    whole = receipt.to_dict()
    assert documents == {"sections": whole["sections"][:1], "nearest": whole["nearest"][1:2]}
    assert recalled == {"sections": whole["sections"][1:], "nearest": whole["nearest"][2:]}
    assert [item["id"] for item in recalled["sections"][0]["items"]] == ["m"]


VOID = {"br", "img", "input", "link", "meta", "hr"}


class Page(HTMLParser):
    """Parses HTML: elements with attributes, texts, and whether every element is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.texts: list[str] = []
        self.attributes: set[tuple[str, str | None]] = set()
        self.open: list[str] = []
        self.others: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.attributes |= set(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.texts.append(data)

    def handle_comment(self, data):
        self.others.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


def shape(html: str) -> list[tuple[str, tuple[str, ...]]]:
    page = Page(html)
    assert not page.open
    assert not page.others
    return page.elements


PLAIN = shape(render_html(window_saying("plain")))


@given(st.text(st.characters(), min_size=1, max_size=60) | st.sampled_from([MARKUP, CONTROLS, SCRIPTS, MARKUP * 500]))
def test_no_text_changes_the_page(text):
    """A text adds no element, whether it is a word, id, kind, score, call, reason or note."""
    html = render_html(window_saying(text))
    html.encode()
    assert shape(html) == PLAIN


def test_a_long_id_stays_whole_for_a_search():
    """Only its style cuts it; a reader may find it, copy it, or point at it."""
    name = "a" * 36
    html = render_html(window_saying(name))
    assert f'<span class="arc-id" title="{name}">{name}</span>' in html
    assert ".arc-id{display:inline-block;max-width:12ch;overflow:hidden" in html


def test_nothing_in_it_can_run():
    """There is no script, handler, URL or form; hostile text stays text."""
    page = Page(render_html(window_saying(MARKUP)))
    assert {tag for tag, _ in page.elements} == {
        *("style", "div", "strong", "span", "details", "summary", "pre", "bdi"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    assert {name for _, names in page.elements for name in names} == {
        *("class", "style", "title", "role", "aria-label", "dir", "open"),
    }
    assert MARKUP in page.text
    styles = {value for name, value in page.attributes if name == "style"}
    assert all(value and value.startswith("width:") and value.endswith("%") for value in styles)


def test_its_style_loads_nothing():
    """Every rule of the style applies only to the window or to a colour scheme."""
    html = render_html(window_saying("x"))
    style = html[html.index("<style>") + 7 : html.index("</style>")]
    assert not any(word in style for word in ("url(", "@import", "@font-face", "expression", "<"))
    rules = style.replace("@media (prefers-color-scheme:dark){", "").split("}")
    selectors = [one for rule in rules if "{" in rule for one in rule.partition("{")[0].split(",")]
    assert selectors
    assert all(".arc-window" in selector for selector in selectors)


def test_every_section_is_there_with_its_tokens():
    """Sections are folded, in the request's order, with their limits; each has a part of the bar."""
    html = render_html(window_saying("what was said"))
    page = Page(html)
    assert [text for text in page.texts if text in TITLES.values()] == list(TITLES.values())
    assert page.texts.count("10 ") == len(TITLES)
    assert page.texts.count("of 20") == len(TITLES)
    titles = {value for name, value in page.attributes if name == "title" and value.endswith(" tokens")}
    assert titles == {f"{name}: 10 tokens" for name in TITLES.values()}
    assert html.count('<span class="arc-of-') == 2 * len(TITLES)  # the second bar is the enlarged one
    assert "93 of 200 tokens" in page.text
    assert "46% used · 107 free · 6 messages" in page.text
    assert sum(tag == "details" for tag, _ in page.elements) == len(TITLES) + 2
    assert html.count(" open>") == 1


def test_every_omission_is_there_with_its_reason():
    window = window_saying("no room")
    rows = [row for row in render_html(window).partition("<tbody>")[2].partition("</tbody>")[0].split("<tr>") if row]
    assert [Page(f"<tr>{row}").texts[:3] for row in rows] == [
        ["no room · no room · no room 1", "no room", "5"],
        ["no room · no room · no room 1", "no room", "5"],
        ["5 more", "no room", "45"],
    ]
    assert "7 items" in render_html(window)


def test_a_window_that_left_nothing_out_says_so():
    html = render_html(window_of(["a", "b"], input_tokens=100))
    assert "nothing left out" in html
    assert "<table" not in html


def test_an_empty_window_is_shown():
    empty = ContextWindow((), (), 0, Receipt(()))
    assert "0 of 0 tokens" in render_html(empty)
    unknown = ContextWindow((), (Section('"><script>', 1, 1),), 1, Receipt((), total_tokens=1, input_tokens=1))
    page = Page(render_html(unknown))
    assert '"><script>' in page.texts
    assert ("class", "arc-of-other") in page.attributes


def test_of_ten_thousand_messages_the_newest_are_shown():
    window = window_of([f"message {n} says <b> & more " * 40 for n in range(10_000)], input_tokens=100_000)
    began = time.process_time()
    html = render_html(window)
    assert time.process_time() - began < 2.0
    assert len(html) < 200_000
    assert "9,800 more, not shown here" in html
    assert "10,000 items" in html
    assert "message 9999 says" in html
    assert "message 9799 says" not in html


@pytest.mark.parametrize("text", ["&" * 1_000_000, "</details>" * 100_000, "안" * 1_000_000])
def test_enormous_texts_are_cut(text):
    html = render_html(window_saying(text))
    assert len(html) < 400_000
    assert shape(html) == PLAIN


def test_the_same_window_gives_the_same_page():
    with ContextEngine.open() as engine:
        window = engine.session("s").context("안녕?", documents=["one"], budget=TokenBudget(500))
    assert render_html(window) == window._repr_html_() == render_html(window)


def test_what_terminals_and_readers_obey_is_made_visible():
    text = Page(render_html(window_saying(CONTROLS))).text
    assert visible(CONTROLS) in text
    assert not {*text} & {"\x1b", "\x00", "\u202e", "\r"}


SENT_BY_RICH = re.compile(r"\x1b\[[0-9;]*m")


def printed(window, *, width=100, full=False, color_system=None, encoding="utf-8"):
    class File(StringIO):
        @property
        def encoding(self):
            return encoding

    file = File()
    terminal = color_system is not None
    console = Console(file=file, width=width, color_system=color_system, force_terminal=terminal, legacy_windows=False)
    console.print(render_terminal(window, full=full))
    return file.getvalue()


@pytest.mark.parametrize("full", [False, True], ids=["overview", "full"])
@given(
    text=st.text(st.characters(), min_size=1, max_size=60) | st.sampled_from([MARKUP, CONTROLS, SCRIPTS]),
    width=st.integers(12, 120),
)
def test_nothing_is_obeyed_and_nothing_is_too_wide(full, text, width):
    """The only control characters are rich's own colours, and no line is wider than the screen."""
    sent = printed(window_saying(text), width=width, full=full, color_system="truecolor")
    left = SENT_BY_RICH.sub("", sent)
    assert not {*left} & {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066"} - {"\n"}
    assert max(map(cell_len, left.split("\n"))) <= width


def test_markup_is_shown_and_not_read():
    out = printed(window_saying("[bold red]hi[/bold red] [link=file:x]y[/link] :smile:"), full=True)
    assert out.count("[bold red]hi[/bold red] [link=file:x]y[/link] :smile:") >= len(TITLES)


@pytest.mark.parametrize("full", [False, True], ids=["overview", "full"])
def test_every_section_and_omission_is_there(full):
    out = printed(window_saying("said"), full=full)
    for name in TITLES.values():
        assert re.search(rf"{name} +10  of 20, \d items?\n", out)
    assert "93 of 200 tokens  46% used, 107 free, 6 messages" in out
    assert re.search(r"left out or shortened  7 items, 55 tokens\n", out)
    assert len(re.findall(r"said · said · said 1 +said +5\n", out)) == 2
    assert re.search(r"5 more +said +45\n", out)
    assert "note  said" in out


def test_the_overview_shows_the_first_words_of_what_matters_most():
    out = printed(window_of([f"question {n}\nsecond line" for n in range(50)], input_tokens=1_000))
    assert "  47 more, then\n  assistant  question 47 second line\n" in out
    assert "question 46" not in out


def test_the_overview_names_a_few_of_what_was_left_out():
    window = window_of([], input_tokens=1_000)
    omissions = [Omission("message", f"m{n}", 10, "older" if n % 2 else "shortened") for n in range(12)]
    receipt = receipt_of([], omissions, rest={"older": LeftOut(100, 1_000)}, total_tokens=9, input_tokens=1_000)
    window = replace(window, receipt=receipt)
    rows = [" ".join(line.split()) for line in printed(window).partition("what")[2].splitlines()[1:]]
    assert rows == [
        *("message · m0 shortened 10", "message · m1 older 10", "message · m2 shortened 10"),
        *("message · m3 older 10", "message · m4 shortened 10", "104 more older 1,040", "3 more shortened 30"),
    ]
    assert printed(window, full=True).count("message · m") == 12


def test_the_overview_groups_merged_items_and_cuts_long_ids():
    """Merged items have one reason; the full view shows each carrier's id whole."""
    carriers = [f"{n}{'0' * 31}" for n in range(9)]
    omissions = [
        Omission("message", f"msg_{one}", 10, "merged into another item", carrier=f"fact {one}") for one in carriers
    ]
    receipt = receipt_of([], omissions, total_tokens=9, input_tokens=1_000)
    window = replace(window_of([], input_tokens=1_000), receipt=receipt)
    out = printed(window)
    rows = [" ".join(line.split()) for line in out.partition("what")[2].splitlines()[1:]]
    assert rows[0] == "message · msg_00000000… merged into fact 000000000000… 10"
    assert rows[5:] == ["4 more merged into another item 40"]
    assert carriers[4] in printed(window, full=True, width=200)


def test_what_is_used_is_not_rounded_up():
    cases = [(0, 0, "0%"), (0, 9, "0%"), (1, 1_000, "under 1%"), (999, 1_000, "99%"), (5, 5, "100%")]
    for used, limit, share in cases:
        window = ContextWindow((), (), used, Receipt((), total_tokens=used, input_tokens=limit))
        assert f"{share} used" in printed(window)


def test_full_shows_everything():
    out = printed(window_of([f"question {n}\nsecond line" for n in range(50)], input_tokens=1_000), full=True)
    assert all(re.search(rf"question {n} *\n +second line", out) for n in range(50))
    assert "  user · m0 · 5 tokens" in out


def test_without_colour_letters_tell_sections_apart():
    bar = printed(window_saying("x"), width=100).split("\n")[1]
    assert re.fullmatch("s+t+f+n+h+q+r+d+a+░+", bar)
    assert len(bar) == 100
    assert len({look.letter for look in LOOKS.values()}) == len(TITLES)


def test_without_unicode_ascii_draws_it():
    out = printed(window_saying("x"), encoding="ascii", color_system="standard")
    assert "█" not in out
    assert "■" not in out
    assert re.search(r"\.{50,}", SENT_BY_RICH.sub("", out))


def test_the_bar_is_as_wide_as_the_screen_or_a_hundred_columns():
    for width in [12, 40, 100, 300]:
        for count in [0, 1, 100, 19_000]:
            out = printed(window_of(["x"] * count, input_tokens=100_000), width=width)
            bar = next(line for line in out.split("\n") if "q" in line and set(line) <= set("hq░"))
            assert len(bar) == min(width, 100)


def test_an_empty_window_and_unknown_sections_are_shown():
    assert "0 of 0 tokens" in printed(ContextWindow((), (), 0, Receipt(())))
    odd = ContextWindow((), (Section("\x1b[2Jodd", 1, 1),), 1, Receipt((), total_tokens=1, input_tokens=1))
    assert visible("\x1b[2Jodd") in printed(odd)


def test_rich_prints_a_window_by_itself():
    window = window_saying("x")
    file = StringIO()
    Console(file=file, width=100).print(window)
    assert file.getvalue() == printed(window)
