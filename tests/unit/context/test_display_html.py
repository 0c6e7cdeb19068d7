"""A window as HTML: everything is there, and no text of anybody's is anything but text."""

import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import ContextEngine, TokenBudget
from arc_common.context import ContextWindow, Receipt, Section
from arc_common.context.display import render_html, visible
from tests.support.context_windows import CONTROLS, MARKUP, SCRIPTS, TITLES, window_of, window_saying

VOID = {"br", "img", "input", "link", "meta", "hr"}


class Page(HTMLParser):
    """Reads HTML: its elements with their attributes, its texts, and whether every element is closed in its order."""

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
    """Wherever it stands — words, ids, kinds, scores, calls, reasons, notes —, it adds nothing to the page."""
    html = render_html(window_saying(text))
    html.encode()
    assert shape(html) == PLAIN


def test_nothing_in_it_can_run():
    """No script, no handler, no address, no form; hostile text arrives as the reader's text."""
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
    """Nor does the style reach beyond the window: every rule begins with its class, or with a page's scheme."""
    html = render_html(window_saying("x"))
    style = html[html.index("<style>") + 7 : html.index("</style>")]
    assert not any(word in style for word in ("url(", "@import", "@font-face", "expression", "<"))
    rules = style.replace("@media (prefers-color-scheme:dark){", "").split("}")
    selectors = [one for rule in rules if "{" in rule for one in rule.partition("{")[0].split(",")]
    assert selectors
    assert all(".arc-window" in selector for selector in selectors)


def test_every_section_is_there_with_its_tokens():
    """Folded, in the request's order, beside what it could have had; each has its piece of the bar."""
    html = render_html(window_saying("what was said"))
    page = Page(html)
    assert [text for text in page.texts if text in TITLES.values()] == list(TITLES.values())
    assert page.texts.count("10 ") == len(TITLES)
    assert page.texts.count("of 20") == len(TITLES)
    titles = {value for name, value in page.attributes if name == "title"}
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
