"""The web UI in a real browser, on a large pool: how long a reader waits, how smooth the map is, what a tab costs.

    python -m bench.web_ui [--nodes N] [--workloads N] [--minutes M] [--changes R] [--json FILE]

The platform of `bench.e2e` with simulated pods, 1 250 nodes of 8 GPUs and 5 000 workloads of 40 projects; pods run for
one to ten minutes, and another R workloads a second are submitted and deleted while the browser looks. Debian's
Chromium, headless, on the same machine. Times are taken in the page: from a click, or from the start of the
navigation, until the rows that were asked for are in the document and the next frame is drawn. `interaction` is what
the browser itself measures of each click and key (Event Timing): until the next frame is drawn, in which the page
shows that it has heard; the new rows come from the server after that. A list that stays empty, or a map without
devices, fails the benchmark; a goal that is missed is reported.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench._report import Setting, progress
from bench._server import Server, end_in_good_order
from fairpool.api import organization as org
from fairpool.api import workload_spec as work
from fairpool.api.calls import Refused
from fairpool.api.client import Client, Unreachable
from tests.browser.reader import Reader, chromium, window

PROJECTS = 40
RUNS_S = ("60", "600")
GOALS = {"first list": 300.0, "interaction": 100.0}
"""Milliseconds."""
FRAMES_GOAL = 50.0
FIRST_LOAD_GOAL = 350_000
ON_DEMAND = ("echarts", "xterm", "codemirror", "yaml", "Chart", "terminal", "Terminal")
GPUS = (0.25, 0.5, 1, 1, 1, 2, 2, 4, 8)

UNTIL_ROWS = """([was]) => new Promise(resolve => {
  const key = () => [...document.querySelectorAll('[data-row]')].map(row => row.dataset.row).join();
  const look = () => {
    const now = key();
    if (now !== '' && now !== was) requestAnimationFrame(() => resolve(performance.now()));
    else requestAnimationFrame(look);
  };
  look();
})"""
ROWS = "[...document.querySelectorAll('[data-row]')].map(row => row.dataset.row).join()"
PAN = """() => new Promise(resolve => {
  let frames = 0;
  const began = performance.now();
  const count = () => {
    frames += 1;
    if (performance.now() - began < 3000) requestAnimationFrame(count);
    else resolve(1000 * frames / (performance.now() - began));
  };
  requestAnimationFrame(count);
})"""


def filled(client: Client, workloads: int) -> None:
    """Projects with quotas, and workloads of every size."""
    for number in range(PROJECTS):
        body = {"name": f"team-{number:02d}", "resources": [{"gpu": {"deserved": 250}}]}
        client.create_project(org.ProjectRequest.model_validate(body))
    draw = random.Random(1)
    for number in range(workloads):
        submitted(client, f"job-{number:05d}", f"team-{draw.randrange(PROJECTS):02d}", draw.choice(GPUS))


def submitted(client: Client, name: str, project: str, gpus: float) -> str:
    spec = {"image": "ubuntu", "command": "sleep", "compute": {"gpu": str(gpus)}}
    body = {"name": name, "projectId": project, "spec": spec}
    return client.submit(work.SubmitTraining.model_validate(body)).id


class Changes:
    """Workloads that come and go while the reader looks."""

    def __init__(self, client: Client, rate: float) -> None:
        self._client, self._rate, self._is_over = client, rate, threading.Event()
        self._thread = threading.Thread(target=self._run, name="changes")
        self.made = 0

    def __enter__(self) -> Changes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        draw, alive = random.Random(2), []
        while not self._is_over.wait(1 / self._rate):
            self.made += 1
            try:
                alive.append(
                    submitted(self._client, f"later-{self.made:06d}", f"team-{draw.randrange(PROJECTS):02d}", 1)
                )
                if len(alive) > 50:
                    self._client.delete_workload(alive.pop(0))
            except (Refused, Unreachable):  # the server is busier than we are
                continue


def timed(reader: Reader, act: Callable[[], object], runs: int = 5) -> list[float]:
    """Milliseconds from an action in the page until other rows are shown."""
    found = []
    for _ in range(runs):
        was = reader.page.evaluate(ROWS)
        began = reader.page.evaluate("performance.now()")
        act()
        found.append(reader.page.evaluate(UNTIL_ROWS, [was]) - began)
        reader.page.wait_for_timeout(300)
    return found


def first_lists(reader: Reader, runs: int = 5) -> list[float]:
    """Milliseconds from the click on "Workloads" until its rows are there, on a page that is loaded."""
    found = []
    for _ in range(runs):
        reader.page.evaluate("document.querySelector('a[href=\"/\"]').click()")
        reader.settle()
        began = reader.page.evaluate("performance.now()")
        reader.page.evaluate("document.querySelector('a[href=\"/workloads\"]').click()")
        found.append(reader.page.evaluate(UNTIL_ROWS, [""]) - began)
    return found


VERDICT = """() => { window.verdict = new Promise(resolve => {
  addEventListener('keydown', () => {
    const began = performance.now();
    const standing = () => document.querySelector('[data-standing]')?.dataset.standing;
    const look = () => {
      if (!['checking', 'blank', undefined].includes(standing()))
        requestAnimationFrame(() => resolve(performance.now() - began));
      else requestAnimationFrame(look);
    };
    setTimeout(look, 0);
  }, { once: true, capture: true });
}); }"""


def verdicts(reader: Reader, runs: int = 8) -> list[float]:
    """Milliseconds from a key in the submit form until it says what would become of that draft."""
    page, found = reader.page, []
    reader.open("/submit?kind=workspace&project=team-01")
    name = page.get_by_label("Name", exact=True)
    name.fill("desk")
    reader.press("Jupyter notebook")
    known = ("starts", "preempts", "waits", "never")
    page.locator(",".join(f"[data-standing={each}]" for each in known)).first.wait_for()
    for _ in range(runs):
        page.evaluate(VERDICT)
        name.press("x")
        found.append(float(page.evaluate("window.verdict")))
        page.wait_for_timeout(200)
    return found


WATCH = """() => {
  window.interactions = {};
  new PerformanceObserver(list => {
    for (const each of list.getEntries())
      if (each.interactionId) window.interactions[each.interactionId] =
        Math.max(window.interactions[each.interactionId] || 0, each.duration);
  }).observe({ type: 'event', durationThreshold: 16, buffered: true });
}"""


def interactions(reader: Reader) -> list[float]:
    """Milliseconds from a click or key until the next frame, of a reader who goes through lists and pages."""
    page = reader.page
    reader.open("/workloads?sort=name")
    page.evaluate(WATCH)
    for _ in range(4):
        page.get_by_role("button", name="Next page").click()
        page.wait_for_timeout(700)
    for _ in range(2):
        page.locator("th[aria-sort] button").click()
        page.wait_for_timeout(700)
    page.get_by_role("searchbox").first.fill("")
    page.get_by_role("searchbox").first.press_sequentially("job-01", delay=80)
    page.wait_for_timeout(700)
    for name in ("Projects", "Nodes", "Workloads", "Overview"):
        page.get_by_role("navigation").get_by_role("link", name=name).first.click()
        page.wait_for_timeout(1200)
    return [float(each) for each in page.evaluate("Object.values(window.interactions)")] or [0.0]


def lists(reader: Reader) -> dict[str, list[float]]:
    page, found = reader.page, {"first list": first_lists(reader), "interaction": interactions(reader)}
    reader.open("/workloads?sort=name")
    found["cold load"] = [page.evaluate(UNTIL_ROWS, [""])]
    found["sort"] = timed(reader, lambda: page.evaluate("document.querySelector('th[aria-sort] button').click()"), 2)
    reader.open("/workloads?sort=name")
    next_page = "document.querySelector('button[aria-label=\"Next page\"]').click()"
    found["next page"] = timed(reader, lambda: page.evaluate(next_page))
    reader.open("/workloads?f=projectName==team-01")
    remove = "document.querySelector('button[aria-label^=\"Clear filters\"]').click()"
    found["filter"] = timed(reader, lambda: page.evaluate(remove), 1)
    began = page.evaluate("performance.now()")
    page.evaluate("document.querySelector('[data-row] td:nth-child(3)').click()")
    page.wait_for_function("location.pathname.startsWith('/workloads/') && document.querySelector('#page h1') !== null")
    found["open a workload"] = [page.evaluate("performance.now()") - began]
    return found


def map_frames(reader: Reader, devices: int) -> float:
    """Frames a second while the map of all devices is dragged about."""
    reader.open("/map")
    canvas = reader.page.wait_for_selector("#page canvas")
    box = canvas.bounding_box()
    reader.page.wait_for_timeout(1500)
    assert str(devices) in reader.text().replace(",", "").replace(" ", ""), "the map does not show every device"
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    reader.page.mouse.move(x, y)
    reader.page.mouse.wheel(0, -240)
    reader.page.mouse.down()
    counting = reader.page.evaluate_handle(f"() => {{ window.counted = ({PAN})(); }}")
    end, step = time.monotonic() + 3.2, 0
    while time.monotonic() < end:
        step += 1
        reader.page.mouse.move(x + 120 * ((step % 20) - 10) / 10, y + 80 * ((step % 14) - 7) / 7)
    reader.page.mouse.up()
    counting.dispose()
    return float(reader.page.evaluate("window.counted"))


def memory(reader: Reader, minutes: float) -> list[float]:
    """MiB of the tab's heap after garbage was collected, twice a minute."""
    session = reader.page.context.new_cdp_session(reader.page)
    session.send("Performance.enable")
    found: list[float] = []
    end = time.monotonic() + 60 * minutes
    paths = ("/workloads", "/", "/map", "/projects")
    while time.monotonic() < end or len(found) < 3:
        reader.page.evaluate(f"document.querySelector('a[href=\"{paths[len(found) % len(paths)]}\"]').click()")
        reader.page.wait_for_timeout(min(30_000, 60_000 * minutes / 3))
        session.send("HeapProfiler.collectGarbage")
        values = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        found.append(values["JSHeapUsedSize"] / 2**20)
        progress(f"memory {found[-1]:.1f} MiB")
    return found


def first_load(reader: Reader) -> tuple[int, int]:
    """Bytes on the wire of scripts and styles for the overview: at first, and those that load on demand."""
    entries = reader.page.evaluate(
        "performance.getEntriesByType('resource').filter(each => /\\.(js|css)$/.test(each.name))"
        ".map(each => [each.name, each.encodedBodySize])"
    )
    later = sum(size for name, size in entries if any(each in name for each in ON_DEMAND))
    return sum(size for _, size in entries) - later, later


def report(name: str, values: Sequence[float], unit: str, goal: float | None, *, least: bool = False) -> dict[str, Any]:
    median = statistics.median(values)
    is_met = goal is None or (median >= goal if least else median <= goal)
    verdict = "" if goal is None else f"  goal {goal:g} {'met' if is_met else 'MISSED'}"
    print(f"{name:20} {median:10.1f} {unit:9} ({min(values):.1f} to {max(values):.1f}, {len(values)} runs){verdict}")
    return {"name": name, "median": median, "least": min(values), "most": max(values), "unit": unit, "goal": goal}


def measured(nodes: int, workloads: int, minutes: float, rate: float, folder: Path) -> list[dict[str, Any]]:
    server = Server("bench._e2e_server", str(folder), str(nodes), *RUNS_S)
    try:
        address = f"http://127.0.0.1:{server.hello['port']}"
        client, another = (Client(address, server.hello["token"]) for _ in range(2))
        progress("submitting")
        filled(client, workloads)
        with chromium() as browser:
            reader = window(browser, address)
            reader.page.goto(address + server.hello["link"])
            reader.settle()
            size, later = first_load(reader)
            lines = [
                report("first load", [size], "bytes", FIRST_LOAD_GOAL),
                report("on demand", [later], "bytes", None),
            ]
            with Changes(another, rate) as changes:
                for name, values in lists(reader).items():
                    lines.append(report(name, values, "ms", GOALS.get(name)))
                lines.append(report("key to verdict", verdicts(reader), "ms", None))
                frames = map_frames(reader, nodes * 8)
                lines.append(report("map while panning", [frames], "frames/s", FRAMES_GOAL, least=True))
                heap = memory(reader, minutes)
                lines.append(report("heap of the tab", heap, "MiB", None))
                third = max(1, len(heap) // 3)
                grown = statistics.mean(heap[-third:]) / statistics.mean(heap[:third])
                lines.append(report("heap, end to begin", [grown], "times", 1.25))
            print(f"{changes.made} workloads came meanwhile")
        return lines
    finally:
        server.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--workloads", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--changes", type=float, default=10.0, help="workloads a second that come and go")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    end_in_good_order()
    with tempfile.TemporaryDirectory() as folder:
        lines = measured(options.nodes, options.workloads, options.minutes, options.changes, Path(folder))
    if options.json is not None:
        setting = Setting.here()
        with options.json.open("a", encoding="utf-8") as file:
            for line in lines:
                file.write(
                    json.dumps({"bench": "web_ui", **line, "host": setting.host, "commit": setting.commit}) + "\n"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
