"""Image names: which are valid, and patterns for the images that a machine without containers can run."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?::[0-9]{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})?(?:@sha256:[a-f0-9]{{64}})?", re.ASCII
)
REFERENCE_MAX = 512
DEFAULT_REGISTRY = "docker.io"


def is_reference(name: str) -> bool:
    """Whether it is a name that a container runtime can pull: `[host[:port]/]path[:tag][@digest]`, and nothing else."""
    return len(name) <= REFERENCE_MAX and _REFERENCE.fullmatch(name) is not None


def tag_of(name: str) -> str:
    """The tag; `latest` where there is neither a tag nor a digest, empty with a digest."""
    if "@" in name:
        return ""
    plain = without_tag(name)
    return name[len(plain) + 1 :] or "latest"


def fits(name: str, pattern: str) -> bool:
    """Whether an image is one of a pattern such as `python`, `*/quickstart` or `a/b:1.0`: its registry's host does not
    count, its tag only where the pattern has one."""
    wanted = without_registry(name)
    return fnmatchcase(wanted, pattern) or fnmatchcase(without_tag(wanted), pattern)


def without_registry(name: str) -> str:
    """The name without the host it is pulled from."""
    host = registry_of(name)
    return (name.removeprefix(f"{host}/") if host else name).removeprefix("library/")


def registry_of(name: str) -> str:
    """The host it is pulled from: the first part, if it can only be a host; empty: none is named."""
    host, slash, _ = name.partition("/")
    return host if slash and ("." in host or ":" in host or host == "localhost") else ""


def qualified(name: str) -> str:
    """The name with the registry that a name without one means, so that it means the same image everywhere."""
    if registry_of(name):
        return name
    return f"{DEFAULT_REGISTRY}/{name}" if "/" in name else f"{DEFAULT_REGISTRY}/library/{name}"


def without_tag(name: str) -> str:
    """The name without tag and digest."""
    plain = name.partition("@")[0]
    head, colon, tag = plain.rpartition(":")
    return head if colon and "/" not in tag else plain
