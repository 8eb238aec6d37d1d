"""Whether the page that makes a request may make it. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def is_foreign(origin: str, headers: Mapping[str, str], method: str, *, is_upgrade: bool) -> bool:
    """Whether a page of another origin makes this request with the user's cookies. `origin`: that of the tool.

    A user may come from anywhere, so plain navigation is permitted.
    """
    claimed, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
    if claimed == "null" and site == "same-origin" and not is_upgrade:
        claimed = None  # a page that sends no referrer
    if claimed is not None and claimed != origin:
        return True
    if site is None or site in ("same-origin", "none"):
        return False
    navigates = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    return not (navigates and method in ("GET", "HEAD"))


def is_page_request(headers: Mapping[str, str], method: str) -> bool:
    """Whether a person looks at the answer, so that a redirect to a sign-in page makes sense."""
    mode = headers.get("Sec-Fetch-Mode")
    return method == "GET" and "text/html" in headers.get("Accept", "") and mode in (None, "navigate")
