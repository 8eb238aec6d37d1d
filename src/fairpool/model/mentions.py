"""Names of projects and their work in texts for people, which only those may read who may see the project.

A cluster writes why something happened once, for all readers; who may see what is known to the control plane. So a name
that is not everybody's is written as a mention: the project it belongs to, the words for those who may see that
project, and the words for everybody else. The marks are private-use characters, which no name contains.
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
    """Words for those who may see a project, and others for everybody else."""
    return f"{MARK}{project}{_BETWEEN}{words}{_BETWEEN}{otherwise}{_END}"


def projects_in(text: str) -> frozenset[str]:
    """Projects that a text mentions."""
    return frozenset(match[1] for match in _MENTION.finditer(text)) if MARK in text else frozenset()


def as_told(text: str, may_see: Callable[[str], bool]) -> str:
    """A text, or JSON with such texts in it, for somebody who may see some projects."""
    if MARK not in text:
        return text
    return _MENTION.sub(lambda match: match[2] if may_see(match[1]) else match[3], text)


def in_full(text: str) -> str:
    """For somebody who may see everything."""
    return as_told(text, lambda _: True)


def anonymous(text: str) -> str:
    """For somebody who may see nothing: a pod, for example."""
    return as_told(text, lambda _: False)
