"""What a command that is over in a moment does not do at once: modules are loaded, and models built, when needed.

A server wants the opposite: everything ready before the first request. So nothing is put off unless a command says so,
before it imports anything else from here.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

_short: list[bool] = []


def be_short() -> None:
    """This process is one command. Too late for what is imported already, and then without effect."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to look for plugins takes 20 ms, and there are none
    _short.append(True)


def is_short() -> bool:
    """Whether models should be built when they are first used."""
    return bool(_short)


class Later:
    """Stands for a module until something in it is asked for, and passes everything on."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
