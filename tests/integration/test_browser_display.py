"""A displayed window in a real browser: it is readable in every scheme and width, and runs no script."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from playwright.sync_api import Browser

from arc_common.context import ContextWindow
from arc_common.context.display import render_html
from tests.support.browsers import CHROMIUM, chromium, measured
from tests.support.context_windows import CONTROLS, MARKUP, SCRIPTS, window_saying

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt install chromium)")

GROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 29)"}
JUPYTER = """<style>
.jp-RenderedHTMLCommon thead { border-bottom: 2px solid red }
.jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th, .jp-RenderedHTMLCommon tr { vertical-align: middle; padding: 9px }
.jp-RenderedHTMLCommon:not(.jp-RenderedMarkdown) td, .jp-RenderedHTMLCommon:not(.jp-RenderedMarkdown) th,
.jp-RenderedHTMLCommon:not(.jp-RenderedMarkdown) tr { text-align: right }
.jp-RenderedHTMLCommon tbody tr:nth-child(odd) { background: #808080 }
.jp-RenderedHTMLCommon pre { background: #808080; color: #909090 }
</style><div class="jp-RenderedHTMLCommon">"""
"""JupyterLab's styles for tables and texts in outputs."""

PAGES = {
    "plain": ("<body>", None),
    "JupyterLab, light": (f'<body data-jp-theme-light="true">{JUPYTER}', "light"),
    "JupyterLab, dark": (f'<body data-jp-theme-light="false">{JUPYTER}', "dark"),
    "VS Code, light": ('<body class="vscode-light">', "light"),
    "VS Code, dark": ('<body class="vscode-dark">', "dark"),
    "VS Code, high contrast": ('<body class="vscode-high-contrast">', "dark"),
    "VS Code, high contrast, light": ('<body class="vscode-high-contrast vscode-high-contrast-light">', "light"),
    "documentation": ('<body data-theme="dark">', "dark"),
}
WIDTHS = (280, 1_000)

MEASURE = """view => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(x => x / 255).map(
    x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4
  ).reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const style = element => view.getComputedStyle(element);
  const ground = element => {
    const color = parse(style(element).backgroundColor);
    return color.length === 4 && color[3] === 0 ? ground(element.parentElement) : color;
  };
  const all = [...view.document.querySelectorAll(".arc-window, .arc-window *")];
  const texts = all.filter(element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim()));
  const box = view.document.querySelector(".arc-window");
  return {
    ground: style(box).backgroundColor,
    text: Math.min(...texts.map(element => contrast(parse(style(element).color), ground(element)))),
    segments: Math.min(...[...view.document.querySelectorAll(".arc-bar span")].map(
      element => contrast(parse(style(element).backgroundColor), parse(style(element.parentElement).backgroundColor))
    )),
    keys: Math.min(...[...view.document.querySelectorAll("details[class^=arc-of] .arc-key")].map(
      element => contrast(parse(style(element).backgroundColor), ground(element.parentElement))
    )),
    narrowest: Math.min(...[...view.document.querySelectorAll(".arc-bar span")].map(
      element => element.getBoundingClientRect().width
    )),
    bars: [...view.document.querySelectorAll(".arc-bar")].map(bar => bar.scrollWidth - bar.clientWidth),
    overflow: view.document.documentElement.scrollWidth - view.document.documentElement.clientWidth,
    outside: all.filter(element => {
      const [own, around] = [element.getBoundingClientRect(), box.getBoundingClientRect()];
      return own.left < around.left - 1 || own.right > around.right + 1;
    }).length,
    texts: texts.length,
    names: [...new Set([...view.document.querySelectorAll("td:first-child, th:first-child")].map(
      element => `${style(element).textAlign} ${style(element).verticalAlign} ${style(element).paddingTop}`
    ))],
    ran: view.ran === true,
    scripts: view.document.querySelectorAll("script").length,
  };
}"""


def document(window: ContextWindow, body: str) -> str:
    """Return a page with the window, everything unfolded."""
    html = render_html(window).replace("<details class", "<details open class")
    return f'<!doctype html><meta charset="utf-8">{body}{html}'


def busy_window() -> ContextWindow:
    """Return a window with many parts, one very small section, and long words."""
    window = window_saying(f"{SCRIPTS} {'long' * 60} {MARKUP.replace('alert(1)', 'window.ran=true')} {CONTROLS[:-1]}")
    sections = tuple(replace(section, tokens=1 if section.name == "tools" else 1_200) for section in window.sections)
    receipt = replace(window.receipt, input_tokens=120_000, total_tokens=9_604)
    return replace(window, sections=sections, total_tokens=9_604, receipt=receipt)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_reads_well_in_every_scheme_and_width(scheme: str, browser: Browser) -> None:
    """Text has a contrast of at least 4.5, colours of at least 3 (WCAG 2.2); nothing overflows, even at 280 pixels."""
    window = busy_window()
    kinds = list(product(PAGES, WIDTHS))
    pages = [(document(window, PAGES[page][0]), width) for page, width in kinds]
    found = measured(browser, pages, MEASURE, scheme=scheme)
    assert len(found) == len(kinds)
    for (page, width), seen in zip(kinds, found, strict=True):
        where = f"{page}, {width} pixels, system {scheme}: {seen}"
        assert seen["ground"] == GROUNDS[PAGES[page][1] or scheme], where
        assert seen["texts"] > 50, where
        assert seen["names"] == ["left top 2px"], where
        assert seen["text"] >= 4.5, where
        assert seen["keys"] >= 3, where
        assert seen["segments"] >= 3, where
        assert seen["narrowest"] >= 2.5, where
        assert max(seen["bars"]) <= 0, where
        assert seen["overflow"] <= 0, where
        assert seen["outside"] == 0, where
        assert not seen["ran"], where
        assert seen["scripts"] == 0, where
