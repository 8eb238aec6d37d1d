"""The session cookie of a browser, and the checks that a request with it is no foreign page's doing.

The cookie is `SameSite=Strict`, and with TLS `__Host-`: no other host can have set it. A page on another port or
subdomain is the *same site* though, and tools in pods are such pages. So a request that changes something needs a
header that browsers let other origins send only if they are allowed to, which they never are; and the browser's own
word on where a request comes from is taken into account.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import Response

from fairpool.control.refusal import Refused, refused

COOKIE = "fairpool_session"
SECURE_COOKIE = f"__Host-{COOKIE}"
REQUEST_HEADER = "X-Fairpool-Request"
"""Any value; sent with every change by pages of this server."""
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
OWN_SITES = ("same-origin", "none")


def cookie_of(headers: Headers, *, is_secure: bool) -> str:
    """The value of the session cookie; empty: there is none. With TLS only the one that no other host can set."""
    cookies = cookie_parser(headers.get("cookie", ""))
    return cookies.get(SECURE_COOKIE if is_secure else COOKIE, "")


def check_own_page(headers: Headers, method: str) -> None:
    """Refuse a request with a cookie that a page of another origin has made."""
    site = headers.get("sec-fetch-site")
    if site is not None and site.lower() not in OWN_SITES:
        raise foreign_page(f"this request comes from another site or port ({site[:16]})")
    if method not in SAFE_METHODS and REQUEST_HEADER not in headers:
        raise foreign_page(f"a change in a browser session needs the header {REQUEST_HEADER}")


def foreign_page(what: str) -> Refused:
    """403: not from a page of this server."""
    fix = f"send {REQUEST_HEADER}: 1 from a page of this server; programs use a bearer token"
    refusal = refused(403, "access.other_origin", what, fix)
    refusal.is_denial = True
    return refusal


def set_session(request: Request, answer: Response, token: str) -> None:
    """Sign the browser in with the answer."""
    is_secure = request.url.scheme == "https"
    name = SECURE_COOKIE if is_secure else COOKIE
    answer.set_cookie(name, token, httponly=True, samesite="strict", path="/", secure=is_secure)


def clear_session(answer: Response) -> None:
    for name, is_secure in ((COOKIE, False), (SECURE_COOKIE, True)):
        answer.delete_cookie(name, path="/", httponly=True, samesite="strict", secure=is_secure)
