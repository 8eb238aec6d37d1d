"""What the web UI is built from: licences that we may ship, no addresses, one version of each family of packages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

UI = Path(__file__).parents[2] / "ui"
LOCK: dict[str, Any] = json.loads((UI / "package-lock.json").read_text(encoding="utf-8"))["packages"]
SHIPPED_UNDER = {"MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "0BSD", "Unlicense", "OFL-1.1"}
SHIPPED_UNDER |= {"(MIT OR CC0-1.0)"}
BUILT_WITH = SHIPPED_UNDER | {"MIT OR Apache-2.0", "MIT-0", "Python-2.0", "MPL-2.0", "BlueOak-1.0.0", "CC0-1.0"}


def test_what_is_shipped_has_a_licence_that_permits_it() -> None:
    shipped = {path: each.get("license") for path, each in LOCK.items() if path and not each.get("dev")}
    assert {path: name for path, name in shipped.items() if name not in SHIPPED_UNDER} == {}


def test_what_it_is_built_with_has_a_licence_that_permits_it() -> None:
    used = {path: each.get("license") for path, each in LOCK.items() if path}
    assert {path: name for path, name in used.items() if name not in BUILT_WITH} == {}


def test_the_lock_file_names_no_address() -> None:
    text = (UI / "package-lock.json").read_text(encoding="utf-8")
    assert re.findall(r'"resolved"|registry', text) == []


def test_packages_of_a_family_have_one_version() -> None:
    mantine = {each["version"] for path, each in LOCK.items() if path.startswith("node_modules/@mantine/")}
    assert len(mantine) == 1
