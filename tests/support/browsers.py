"""Chromium without a window, if it is installed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from playwright.sync_api import Browser, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The path of the browser, or `None`."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser. No test of this process may use asyncio until it ends."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def measured(browser: Browser, pages: list[tuple[str, int]], measure: str, *, scheme: Any) -> list[Any]:
    """Return what a JavaScript function tells of the window of each page: an HTML document and its width in pixels."""
    frames = "".join(
        f'<iframe style="width:{width}px;height:600px;border:0" srcdoc="{escape(html)}"></iframe>'
        for html, width in pages
    )
    page = browser.new_page(color_scheme=scheme)
    page.set_content(f'<!doctype html><meta charset="utf-8">{frames}')
    found: list[Any] = page.evaluate(
        f"[...document.querySelectorAll('iframe')].map(one => ({measure})(one.contentWindow))"
    )
    page.close()
    return found
