"""Removes secrets from logs and documents before they leave the machine. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

REMOVED = "[removed]"
SECRET_KEY = re.compile(
    r"pass(?:word|wd|phrase)?|secret|token|credential|authorization|cookie|api[-_]?key|private[-_]?key|access[-_]?key",
    re.IGNORECASE,
)
QUOTED_OR_WORD = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s,;&'"}\]]+)"""
PATTERNS = (
    # Our own tokens and secrets, each with a prefix of its kind.
    re.compile(r"\bfp[a-z]_[A-Za-z0-9_-]{8,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"),  # JWT
    re.compile(r"(?<=://)[^/\s@]+(?=@)"),  # user and password in an address
)
PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,32}PRIVATE KEY-----|\Z)", re.DOTALL
)
LINE_MAX = 16_384
"""Characters of a line that are kept; a longer one is cut."""
NAMED = re.compile(
    rf"""(?P<key>(?:{SECRET_KEY.pattern})[\w.-]{{0,64}}["']?\s{{0,8}}[:=]\s{{0,8}})"""
    rf"""(?P<value>(?:(?:bearer|basic|digest)\s+)?{QUOTED_OR_WORD})""",
    re.IGNORECASE,
)
AFTER_WORD = re.compile(r"\b(?P<key>(?:bearer|basic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
CODE = re.compile(r"(?P<key>[?&](?:code|ticket|state|signature|sig)=)(?P<value>[^&\s\"']+)", re.IGNORECASE)
VARIABLE = re.compile(r"(?P<key>(?:^|\s)(?:-e|--environment|--master-environment)[ =]+[\w.]+=)(?P<value>\S+)")


def redacted_log(text: str, known: Collection[str] = ()) -> list[str]:
    """The lines of a log without secrets; a private key may have several lines."""
    lines = PRIVATE_KEY.sub(REMOVED, text).splitlines(keepends=True)
    return [redacted(line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]}\n", known) for line in lines]


def redacted(text: str, known: Collection[str] = ()) -> str:
    """A text without what looks like a secret, and without the values in `known`."""
    for value in sorted(filter(None, known), key=len, reverse=True):
        text = text.replace(value, REMOVED)
    for pattern in (*PATTERNS, PRIVATE_KEY):
        text = pattern.sub(REMOVED, text)
    for named in (NAMED, AFTER_WORD, CODE, VARIABLE):
        text = named.sub(lambda found: f"{found['key']}{REMOVED}", text)
    return text


def redacted_document(value: Any, known: Collection[str] = ()) -> Any:
    """A JSON document without secrets: values of keys that sound like one, and texts that look like one."""
    if isinstance(value, Mapping):
        return {
            key: REMOVED if SECRET_KEY.search(str(key)) and isinstance(each, str) else redacted_document(each, known)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [redacted_document(each, known) for each in value]
    return redacted(value, known) if isinstance(value, str) else value
