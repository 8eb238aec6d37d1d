"""Redaction: names of projects and workloads in messages, for readers who may see the project and for all others.

A cluster writes a message once, for all readers; what each reader may see is known to the control plane. So such a name
is written as a mention: its project, the text for readers who may see that project, and the text for all others. The
delimiters are private-use characters, which no name contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

MARK: Final = "\ue000"
_BETWEEN, _END = "\ue001", "\ue002"
# Neither a quote nor a backslash: a mention begins and ends inside one string of a JSON text.
_WORDS = r'([^\ue000-\ue002"\\]*)'
_MENTION = re.compile(f"{MARK}{_WORDS}{_BETWEEN}{_WORDS}{_BETWEEN}{_WORDS}{_END}")

ANOTHER_PROJECT = "another project"
WORK_OF_ANOTHER = "work of another project"


def mention(project: str, words: str, otherwise: str) -> str:
    """A mention: one text for readers who may see a project, another for all others."""
    return f"{MARK}{project}{_BETWEEN}{words}{_BETWEEN}{otherwise}{_END}"


def redacted(text: str, may_see: Callable[[str], bool]) -> str:
    """A text, or JSON with such texts in it, for a reader who may see some projects."""
    if MARK not in text:
        return text
    return _MENTION.sub(lambda match: match[2] if may_see(match[1]) else match[3], text)


def in_full(text: str) -> str:
    """A text for a reader who may see everything."""
    return redacted(text, lambda _: True)


def anonymous(text: str) -> str:
    """A text for a reader who may see nothing: a pod, for example."""
    return redacted(text, lambda _: False)
