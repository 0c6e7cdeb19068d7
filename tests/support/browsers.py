"""Chromium without a window, if it is installed."""

import base64
import json
import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["CHROMIUM", "measured"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The path of the browser, or `None`."""

_PAGE = """<!doctype html><meta charset="utf-8">{frames}<pre id="measured"></pre><script>
addEventListener("load", () => {{
  const measure = {measure};
  const found = [...document.querySelectorAll("iframe")].map(frame => measure(frame.contentWindow));
  document.getElementById("measured").textContent = btoa(unescape(encodeURIComponent(JSON.stringify(found))));
}});
</script>"""


def measured(pages: list[tuple[str, int]], measure: str, *, folder: Path, is_dark: bool) -> list[Any]:
    """Return the result of a JavaScript function for each page.

    Args:
        pages: HTML documents, each with the width of its window in pixels.
        measure: A JavaScript function from a page's window to a JSON value.
        folder: The folder for the page that contains them.
        is_dark: Emulate a dark colour scheme of the system.
    """
    assert CHROMIUM is not None
    frames = "".join(
        f'<iframe style="width:{width}px;height:600px;border:0" srcdoc="{escape(html)}"></iframe>'
        for html, width in pages
    )
    page = folder / "page.html"
    page.write_text(_PAGE.format(frames=frames, measure=measure), "utf-8")
    look = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1200,800",
        f"--user-data-dir={folder}/profile",
    ]
    scheme = f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"
    command = [CHROMIUM, *look, scheme, "--virtual-time-budget=10000", "--dump-dom", page.as_uri()]
    dump = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    answer = dump.rpartition('<pre id="measured">')[2].partition("</pre>")[0]
    return list(json.loads(base64.b64decode(answer)))
