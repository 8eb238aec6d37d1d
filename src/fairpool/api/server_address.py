"""The address of a control plane, as people type it."""

from __future__ import annotations

from urllib.parse import urlsplit


def server_address(text: str) -> str | None:
    """With a scheme and without a slash at the end; none if it is not valid."""
    full = text.strip() if "://" in text else f"http://{text.strip()}"
    try:
        parts = urlsplit(full)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    return full.rstrip("/") if usable and not any(each.isspace() for each in full) else None
