"""Look and headers of the HTML pages.

Pages are self-contained (no scripts, fonts or external resources), so that they also work offline. Without a session
they show nothing about the installation.
"""

from __future__ import annotations

from html import escape

from starlette.responses import HTMLResponse

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
MARK = (
    '<svg class="mark" viewBox="0 0 24 24" role="img" aria-label="Fairpool"><rect width="24" height="24" rx="6"/>'
    '<path d="M5 7h14M7.5 11v6M12 11v6M16.5 11v6"/></svg>'
)
STYLE = """
:root { color-scheme: light dark; --bg: #f5f6f8; --surface: #fff; --sunken: #edeff3; --border: #dadfe6; --text: #161a20;
  --text-2: #454e5b; --text-3: #5e6775; --accent: #3446c4; --tint: #e8ebfc; --on-accent: #fff; --edge: #868f9d;
  --failed: #b3261e; --failed-tint: #fbe5e3; }
@media (prefers-color-scheme: dark) { :root { --bg: #0f1216; --surface: #171b21; --sunken: #1f252d; --border: #2c333d;
  --text: #e9ecf1; --text-2: #b6bfcb; --text-3: #939dab; --accent: #98a6ff; --tint: #242b55; --on-accent: #10131a;
  --edge: #6b7686; --failed: #ff8f86; --failed-tint: #47201e; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; background: var(--bg); color: var(--text);
  font: 14px/20px Inter, system-ui, sans-serif; }
.card { max-width: 400px; margin: 0 auto; padding: 8vh 16px 48px; }
.card > main { padding: 24px; background: var(--surface); border: 1px solid var(--border); border-radius: 8px; }
.wide { max-width: 60rem; margin: 0 auto; padding: 24px 16px 64px; }
.brand { display: flex; align-items: center; gap: 8px; margin: 0 0 16px; font-weight: 600; color: var(--text);
  text-decoration: none; width: fit-content; } .card > .brand { margin: 0 auto 24px; font-size: 16px; }
.mark { width: 24px; height: 24px; } .mark rect { fill: #3446c4; }
.mark path { stroke: #fff; stroke-width: 2.4; stroke-linecap: round; }
h1 { font-size: 20px; line-height: 28px; font-weight: 600; margin: 0 0 8px; text-wrap: balance; }
h2 { font-size: 14px; line-height: 20px; font-weight: 600; margin: 24px 0 8px; } p { margin: 8px 0; }
.wide h2 { font-size: 16px; margin: 32px 0 8px; }
a { color: var(--accent); } .soft { color: var(--text-3); font-size: 12px; line-height: 16px; }
code, pre { font-family: "JetBrains Mono", ui-monospace, monospace; font-size: 12px; background: var(--sunken);
  border-radius: 4px; } code { padding: 1px 4px; overflow-wrap: anywhere; }
pre { padding: 12px; overflow-x: auto; } pre code { padding: 0; overflow-wrap: normal; }
label { display: block; margin: 12px 0; font-weight: 500; }
input { display: block; width: 100%; height: 36px; margin: 4px 0 0; padding: 0 12px; font: inherit; color: var(--text);
  background: var(--surface); border: 1px solid var(--edge); border-radius: 6px; }
button, .button { display: block; width: 100%; min-height: 36px; margin: 16px 0 0; padding: 7px 16px; font: inherit;
  font-weight: 500; text-align: center; cursor: pointer; border-radius: 6px; border: 1px solid var(--accent);
  background: var(--accent); color: var(--on-accent); }
.button, button.plain { background: var(--surface); border-color: var(--edge); color: var(--text);
  text-decoration: none; margin-top: 8px; }
.wide button { width: auto; } button:hover, .button:hover { filter: brightness(.95); }
input:focus-visible, button:focus-visible, a:focus-visible, summary:focus-visible { outline: 2px solid var(--accent);
  outline-offset: 2px; }
.wrong { padding: 8px 12px; border-radius: 6px; color: var(--failed); background: var(--failed-tint); }
.code { font-size: 20px; letter-spacing: .1em; text-align: center; }
.card ul { margin: 8px 0; padding: 12px 12px 12px 28px; background: var(--sunken); border-radius: 6px; }
li { overflow-wrap: anywhere; } nav { margin-top: 16px; } nav a { margin-right: 16px; }
details { border-top: 1px solid var(--border); } summary { cursor: pointer; padding: 8px 0; }
details > div { padding: 0 0 16px 16px; } .verb { display: inline-block; min-width: 72px; font-weight: 600;
  font-family: ui-monospace, monospace; font-size: 12px; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top;
  padding: 4px 8px 4px 0; border-bottom: 1px solid var(--border); font-size: 13px; line-height: 18px; }
@media (pointer: coarse) { input, button, .button { min-height: 44px; } .button, button { padding: 11px 16px; } }
"""
"""The colours and measures of the web UI, in which these pages are drawn as well."""


def layout(
    title: str,
    body: str,
    status: int = 200,
    *,
    forms_lead_to: str = "",
    refresh: str = "",
    style: str = "",
    is_wide: bool = False,
) -> HTMLResponse:
    """A whole page: a card, or with `is_wide` a text. `forms_lead_to`: where else its forms may lead, by redirects.
    `refresh`: where it leads at once. `style`: beyond that of all pages."""
    onward = f'<meta http-equiv="refresh" content="0; url={escape(refresh)}">' if refresh else ""
    brand = f'<a class="brand" href="/">{MARK}Fairpool</a>'
    shown = body if is_wide else f"<main>{body}</main>"
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{onward}<title>{escape(title)}</title><style>{STYLE}{style}</style></head>\n"
        f'<body><div class="{"wide" if is_wide else "card"}">{brand}{shown}</div></body></html>\n'
    )
    policy = f"{POLICY} {forms_lead_to}" if forms_lead_to else POLICY
    return HTMLResponse(text, status, {**HEADERS, "Content-Security-Policy": policy})
