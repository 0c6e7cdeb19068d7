"""How the HTML of a context window looks, on light and on dark ground."""

__all__ = ["COLORS", "STYLE"]

COLORS = {
    "system": "#6272d9",
    "tools": "#957442",
    "facts": "#0f8b8d",
    "narrative": "#b84fa5",
    "history": "#36894f",
    "query": "#c27000",
    "memory": "#2e86c1",
    "documents": "#cb513d",
    "running": "#7a8500",
}
"""A colour for each section, with a contrast of at least 3 to the light and to the dark ground (WCAG 2.2, 1.4.11)."""

_LIGHT = "--ink:#1f2328;--dim:#57606a;--line:#d5d9e0;--free:#e4e8ee;--paper:#ffffff;color-scheme:light"
_DARK = "--ink:#e6e9ee;--dim:#9da7b5;--line:#3a414c;--free:#272d35;--paper:#15181d;color-scheme:dark"

_LIGHT_PAGES = ('[data-jp-theme-light="true"]', '[data-theme="light"]', ".vscode-light", ".vscode-high-contrast-light")
_DARK_PAGES = ('[data-jp-theme-light="false"]', '[data-theme="dark"]', ".vscode-dark", ".vscode-high-contrast")
"""How JupyterLab, documentation themes and VS Code mark their scheme, which may be another than the system's.

VS Code gives `vscode-high-contrast` to its light variant too: hence the light rules stand last.
"""


def _inside(pages: tuple[str, ...]) -> str:
    return ",".join(f"{page} .arc-window" for page in pages)


_OF_SECTIONS = "".join(f".arc-window .arc-of-{name}{{--own:{color}}}" for name, color in COLORS.items())

STYLE = f"""
.arc-window{{{_LIGHT}}}
@media (prefers-color-scheme:dark){{.arc-window{{{_DARK}}}}}
{_inside(_DARK_PAGES)}{{{_DARK}}}
{_inside(_LIGHT_PAGES)}{{{_LIGHT}}}
{_OF_SECTIONS}
.arc-window{{--own:#7c8490;color:var(--ink);background:var(--paper);border:1px solid var(--line);border-radius:8px;
padding:12px 14px 10px;max-width:960px;box-sizing:border-box;text-align:left;
font:14px/1.45 system-ui,-apple-system,"Segoe UI",sans-serif}}
.arc-window .arc-head{{display:flex;justify-content:space-between;gap:2px 12px;flex-wrap:wrap;margin-bottom:8px}}
.arc-window .arc-dim{{color:var(--dim)}}
.arc-window .arc-small{{font-size:12px;margin:6px 0 2px}}
.arc-window .arc-bar{{display:flex;gap:1px;height:18px;border-radius:4px;overflow:hidden;background:var(--free);
forced-color-adjust:none}}
.arc-window .arc-bar span{{display:block;min-width:3px;background:var(--own)}}
.arc-window .arc-bar+details{{margin-top:10px}}
.arc-window details{{border-top:1px solid var(--line)}}
.arc-window summary{{cursor:pointer;padding:4px 0;display:flex;flex-wrap:wrap;gap:0 8px;align-items:baseline}}
.arc-window summary::-webkit-details-marker{{display:none}}
.arc-window summary::before{{content:"▸";color:var(--dim);width:.8em;flex:none}}
.arc-window details[open]>summary::before{{content:"▾"}}
.arc-window .arc-key{{width:10px;height:10px;border-radius:2px;flex:none;background:var(--own);
forced-color-adjust:none}}
.arc-window .arc-omissions .arc-key,.arc-window .arc-notes .arc-key{{background:none;border:1px solid var(--dim);
box-sizing:border-box}}
.arc-window .arc-tokens{{margin-left:auto;font-variant-numeric:tabular-nums;white-space:nowrap}}
.arc-window .arc-nothing{{border-top:1px solid var(--line);padding:4px 0}}
.arc-window .arc-item{{margin:4px 0 8px 1.4em;padding-left:8px;border-left:3px solid var(--own);
overflow-wrap:anywhere}}
.arc-window pre{{margin:2px 0 0;padding:0;white-space:pre-wrap;overflow-wrap:anywhere;background:none;color:inherit;
border:0;font:13px/1.45 ui-monospace,Menlo,Consolas,monospace;max-height:20em;overflow:auto}}
.arc-window .arc-scroll{{margin:2px 0 8px 1.4em;overflow-x:auto}}
.arc-window table{{border-collapse:collapse;margin:0;width:100%;font-size:13px;color:inherit;border:0}}
.arc-window .arc-scroll thead,.arc-window .arc-scroll tr{{background:none!important;border:0}}
.arc-window .arc-scroll table th,.arc-window .arc-scroll table td{{text-align:left;padding:2px 14px 2px 0;
vertical-align:top;border:0;color:inherit;overflow-wrap:anywhere;white-space:normal;max-width:none}}
.arc-window .arc-scroll table th{{color:var(--dim);font-weight:normal}}
.arc-window .arc-scroll table .arc-number{{text-align:right;padding-right:0;font-variant-numeric:tabular-nums;
white-space:nowrap}}
"""
