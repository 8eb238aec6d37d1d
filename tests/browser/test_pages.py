"""Every page of the web UI with real data: it draws without an error, axe finds nothing serious, nothing leaves the
host, and nothing is cut off on a narrow screen. With FAIRPOOL_PICTURES the same run leaves pictures of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.reader import NARROW, WIDE, Reader, pictures_folder, signed_in
from tests.browser.world import World, furnished
from tests.running_platform import Running

pytestmark = pytest.mark.slow

PAGES = {
    "overview": "/",
    "welcome": "/welcome",
    "gpu-map": "/map",
    "workloads": "/workloads",
    "workloads-pending": "/workloads?f=phase==Pending",
    "workload-pending": "/workloads/{pending}",
    "workload-running": "/workloads/{running}",
    "workload-log": "/workloads/{running}?tab=log",
    "workload-metrics": "/workloads/{running}?tab=metrics",
    "workload-spec": "/workloads/{running}?tab=spec",
    "workload-events": "/workloads/{running}?tab=events",
    "workload-failed": "/workloads/{failed}",
    "submit": "/submit",
    "submit-workspace": "/submit?kind=workspace",
    "submit-distributed": "/submit?kind=distributed",
    "submit-sweep": "/submit?kind=sweep",
    "submit-inference": "/submit?kind=inference",
    "assets": "/assets",
    "environments": "/assets?kind=environments",
    "credentials": "/assets?kind=credentials",
    "projects": "/projects",
    "project": "/projects/{project}",
    "departments": "/departments",
    "node-pools": "/node-pools",
    "nodes": "/nodes",
    "node": "/nodes/{node}",
    "clusters": "/clusters",
    "analytics": "/analytics",
    "decisions": "/decisions",
    "what-if": "/what-if",
    "what-if-quota": "/what-if?set=project.team-b.quota=6",
    "consumption": "/consumption",
    "quota": "/quota",
    "reports": "/reports",
    "policies": "/policies",
    "access-users": "/access?tab=users",
    "access-groups": "/access?tab=groups",
    "access-rules": "/access?tab=rules",
    "access-applications": "/access?tab=applications",
    "access-roles": "/access?tab=roles",
    "access-providers": "/access?tab=providers",
    "audit": "/audit",
    "settings": "/settings",
    "profile": "/profile",
    "command-line": "/command-line",
}
LOOKS = {
    "light-wide": {"size": WIDE, "dark": False},
    "dark-wide": {"size": WIDE, "dark": True},
    "light-narrow": {"size": NARROW, "dark": False},
    "dark-narrow": {"size": NARROW, "dark": True},
}


@pytest.fixture(scope="module")
def world(platform: Running) -> World:
    return furnished(platform)


@pytest.fixture(scope="module")
def windows(browser: Any, platform: Running, world: World) -> Iterator[dict[str, Reader]]:
    found = {name: signed_in(browser, platform, **look) for name, look in LOOKS.items()}
    yield found
    for each in found.values():
        each.page.context.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page(name: str, world: World, windows: dict[str, Reader], tmp_path: Path) -> None:
    path = PAGES[name].format(**world.names)
    folder = pictures_folder() or tmp_path
    problems = []
    for look, reader in windows.items():
        reader.faults.clear()
        reader.open(path)
        reader.picture(folder / f"{name}-{look}.webp")
        found = [*reader.faults, *(reader.violations() if "wide" in look else [])]
        if reader.page.query_selector("[data-state=error]") is not None:
            found.append(f"a part could not be loaded: {reader.page.inner_text('[data-state=error]')}")
        if reader.is_sideways():
            found.append("it scrolls sideways")
        problems += [f"{look}: {each}" for each in found]
    assert problems == [], path
