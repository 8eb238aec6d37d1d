"""Image names, and patterns for the images that a machine without containers can run."""

from __future__ import annotations

from fnmatch import fnmatchcase


def fits(name: str, pattern: str) -> bool:
    """Whether an image is one of a pattern such as `python`, `*/quickstart` or `a/b:1.0`: its registry's host does not
    count, its tag only where the pattern has one."""
    wanted = without_registry(name)
    return fnmatchcase(wanted, pattern) or fnmatchcase(without_tag(wanted), pattern)


def without_registry(name: str) -> str:
    """The name without the host it is pulled from: the first part, if it can only be a host."""
    host, slash, rest = name.partition("/")
    is_host = bool(slash) and ("." in host or ":" in host or host == "localhost")
    return (rest if is_host else name).removeprefix("library/")


def without_tag(name: str) -> str:
    """The name without tag and digest."""
    plain = name.partition("@")[0]
    head, colon, tag = plain.rpartition(":")
    return head if colon and "/" not in tag else plain
