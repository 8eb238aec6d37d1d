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
STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --paper: #fff; --line: #d9d9e0; --mark: #0b68cb;
  --code: #f4f5f7; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #edeef0; --soft: #b0b4ba; --paper: #111113; --line: #3a3d42; --mark: #70b8ff; --code: #1d1f22; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif; }
a { color: var(--mark); } h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .88em; background: var(--code); border-radius: 4px; }
code { padding: .1em .3em; overflow-wrap: anywhere; } pre { padding: .8rem 1rem; overflow-x: auto; }
pre code { padding: 0; } .soft { color: var(--soft); }
details { border-top: 1px solid var(--line); } summary { cursor: pointer; padding: .5rem 0; }
summary:focus-visible, a:focus-visible, button:focus-visible { outline: 2px solid var(--mark); outline-offset: 2px; }
details > div { padding: 0 0 1rem 1rem; } .verb { display: inline-block; min-width: 4.5rem; font-weight: 600;
  font-family: ui-monospace, monospace; font-size: .82em; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top;
  padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); font-size: .93em; }
button, input { font: inherit; } label { display: block; margin: .6rem 0; } input { display: block; width: 20rem; }
.wrong { color: #c62a2f; } .button { display: inline-block; padding: .3rem .9rem; border: 1px solid var(--line);
  border-radius: 6px; text-decoration: none; } .code { font-size: 1.5rem; letter-spacing: .1em; }
nav a { margin-right: 1rem; }
"""


def layout(
    title: str, body: str, status: int = 200, *, forms_lead_to: str = "", refresh: str = "", style: str = ""
) -> HTMLResponse:
    """A whole page. `forms_lead_to`: where else its forms may lead, by redirects. `refresh`: where it leads at once.
    `style`: beyond that of all pages."""
    onward = f'<meta http-equiv="refresh" content="0; url={escape(refresh)}">' if refresh else ""
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{onward}<title>{escape(title)}</title><style>{STYLE}{style}</style></head>\n<body>{body}</body></html>\n"
    )
    policy = f"{POLICY} {forms_lead_to}" if forms_lead_to else POLICY
    return HTMLResponse(text, status, {**HEADERS, "Content-Security-Policy": policy})
