"""Absolute paths in one spelling. Pure."""

from __future__ import annotations

import posixpath


def normal_path(path: str) -> str:
    """Without `.`, `..` and repeated slashes; also without the two at the beginning, which POSIX keeps."""
    return f"/{posixpath.normpath(path).lstrip('/')}" if path.startswith("/") else posixpath.normpath(path)
