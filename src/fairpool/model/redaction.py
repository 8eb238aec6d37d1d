"""Removes secrets from logs, documents and audit entries, by the names of values and by what texts look like. Pure."""

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
FLAGGED = re.compile(rf"(?P<key>(?:^|\s)--?[\w-]*(?:{SECRET_KEY.pattern})[\w-]*\s+)(?P<value>[^\s-]\S*)", re.IGNORECASE)
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
    for named in (NAMED, AFTER_WORD, FLAGGED, CODE, VARIABLE):
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


NOT_A_SECRET = re.compile(
    r"(name|id|type|kind|seconds|length|endpoint|url|uri|count|at|expiry|revision)s?$", re.IGNORECASE
)
"""How names end that sound like a secret and are about one: secretName, tokenEndpoint, passwordMinLength."""
HIDDEN_KEY = re.compile(r"hash$|sealed|_pem$|signature|nonce|salt|private", re.IGNORECASE)
VARIABLES_KEY = re.compile(r"(?:^|_)(?:env|environment)(?:_?variables)?$", re.IGNORECASE)
SUSPICIOUS = re.compile(
    r"pass|secret|token|credential|authorization|cookie|key|bearer|basic|eyJ|fp[a-z]_|@|BEGIN|[?&]|-e |environment",
    re.IGNORECASE,
)
"""A text without any of these has no secret that `redacted` would find."""
SECRET_FLAG = re.compile(rf"--?[\w-]*(?:{SECRET_KEY.pattern})[\w-]*", re.IGNORECASE)
EMPTY: tuple[Any, ...] = (None, "", [], {}, ())


def is_secret_key(key: str) -> bool:
    """Whether the value of a field or column with this name is not to be shown."""
    if HIDDEN_KEY.search(key):
        return True
    return SECRET_KEY.search(key) is not None and NOT_A_SECRET.search(key) is None


def without_secrets(value: Any) -> Any:
    """A JSON document that may be kept for years: no secrets, no values of environment variables, no empty fields."""
    if isinstance(value, str):
        return redacted(value) if SUSPICIOUS.search(value) else value
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, list | tuple):
        return _items(value)
    return value


def _object(value: Mapping[str, Any]) -> dict[str, Any]:
    named = value.get("key", value.get("name"))
    is_pair = isinstance(named, str) and "value" in value and is_secret_key(named)
    found: dict[str, Any] = {}
    for key, each in value.items():
        if isinstance(each, bool):
            found[key] = each
        elif each in EMPTY:
            continue
        elif is_secret_key(key) or (is_pair and key == "value"):
            found[key] = REMOVED
        elif VARIABLES_KEY.search(key):
            found[key] = _variables(each)
        else:
            found[key] = without_secrets(each)
    return found


def _items(value: list[Any] | tuple[Any, ...]) -> list[Any]:
    """Of the arguments of a command, also the one after `--password`."""
    found = []
    is_next_secret = False
    for each in value:
        is_text = isinstance(each, str)
        found.append(REMOVED if is_next_secret and is_text and not each.startswith("-") else without_secrets(each))
        is_next_secret = is_text and SECRET_FLAG.fullmatch(each) is not None
    return found


def _variables(value: Any) -> Any:
    """Names of environment variables; any value may be a secret."""
    if isinstance(value, Mapping):
        return {key: each if isinstance(each, bool) else REMOVED for key, each in value.items()}
    if not isinstance(value, list | tuple):
        return REMOVED
    found: list[Any] = []
    for each in value:
        if isinstance(each, Mapping):
            found.append({key: REMOVED if key == "value" else without_secrets(it) for key, it in each.items()})
        elif isinstance(each, list | tuple) and each:
            found.append([each[0], *(REMOVED for _ in each[1:])])
        else:
            found.append(str(each).partition("=")[0])
    return found
