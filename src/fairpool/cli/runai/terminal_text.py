"""Removes terminal escape sequences from the output of pods; text, colours and line ends pass.

A log can hold sequences that set the title, fill the clipboard, move over what was printed before or make the terminal
type an answer. Colours (SGR) and erasing within the line pass, because progress bars live on them.
"""

from __future__ import annotations

import codecs
import re

OPENERS = r"\x90\x98\x9b\x9d\x9e\x9f"
BODY = rf"[^\x07\x1b\x9c{OPENERS}]*"  # stops at the next opener, so that a log of nothing but openers costs linear time
SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    rf"|\x1b[\]PX^_]{BODY}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC up to their end
    r"|\x9b[0-?]*[ -/]*[@-~]"
    rf"|[\x90\x98\x9d\x9e\x9f]{BODY}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b(?:[ -/]+[0-~]|[0-OQ-WYZ\\`-~])"  # two characters, and none that begins one of the above
)
HARMLESS = re.compile(r"\x1b\[[0-9;:]*[mK]")
UNFINISHED = re.compile(rf"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_]{BODY}\x1b?|[ -/]*)?\Z|[{OPENERS}]{BODY}\x1b?\Z")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|[\u202a-\u202e\u2066-\u2069]")
LONGEST = 4096
"""A sequence that has not ended by then is none."""


class Harmless:
    """Filters a stream of bytes; sequences and characters may come in pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> str:
        return self._clean(self._rest + self._decoder.decode(data), last=False)

    def finish(self) -> str:
        """The rest that was held back because it may begin a sequence."""
        return self._clean(self._rest + self._decoder.decode(b"", final=True), last=True)

    def _clean(self, text: str, *, last: bool) -> str:
        parts: list[str] = []
        position = 0
        self._rest = ""
        for found in SEQUENCE.finditer(text):
            parts.append(text[position : found.start()])
            if HARMLESS.fullmatch(found[0]):
                parts.append(found[0])
            position = found.end()
        tail = text[position:]
        unfinished = UNFINISHED.search(tail)
        if unfinished is not None and not last and len(tail) - unfinished.start() <= LONGEST:
            self._rest = tail[unfinished.start() :]
            tail = tail[: unfinished.start()]
        parts.append(tail)
        return "".join(each if HARMLESS.fullmatch(each) else _without_controls(each) for each in parts)


def _without_controls(text: str) -> str:
    return CONTROL.sub("", text.replace("\x1b", ""))
