"""Where `runai` keeps its servers and logins. The server hides this directory from pods."""

from __future__ import annotations

import os
from pathlib import Path


def config_directory(given: str | None = None) -> Path:
    """By flag, by `FAIRPOOL_CONFIG`, or in the user's configuration directory; a relative one there is ignored."""
    own = given or os.environ.get("FAIRPOOL_CONFIG")
    if own:
        return Path(own).expanduser()
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(chosen) if Path(chosen).is_absolute() else Path("~/.config").expanduser()
    return base / "fairpool"
