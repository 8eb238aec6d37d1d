"""Routes of the gateway: which port of which pod an origin or a documented path leads to. Pure.

They follow from the rows of workloads: the ports that were asked for, and the last report of the cluster. A workload
that is suspended or deleted has none from that commit on, before any of its pods is stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fairpool.control.pod_access import PodAddress
from fairpool.control.store.workloads import Key
from fairpool.control.workload_columns import of_run
from fairpool.control.workload_documents import declaration_of, directory_user_of, report_of
from fairpool.model.lifecycle import PodPhase

ORIGIN = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-([1-9][0-9]{0,4})")
BASE_URL = re.compile(r"(?:--|\b)(?:NotebookApp\.|ServerApp\.|LabApp\.)?base_url[= ]([^\s'\"]+)")


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A workload with ports that the gateway serves, as it is now."""

    key: Key
    name: str
    project: str
    department: str
    cluster: str
    kind: str
    asked: frozenset[int]
    pods: tuple[PodAddress, ...]
    """Those that run, in order: they share its requests."""
    base_path: str
    """Where the tool begins, if its arguments say so: `/test-ingress/`."""
    directory_user: str | None = None
    """The only user who may open it, since its pods run with their numbers of a directory."""

    def origin(self, port: int) -> str:
        return origin_of(self.key.id, port)


def origin_of(workload_id: str, port: int) -> str:
    """The label of the host name for a port of a workload."""
    return f"{workload_id}-{port}"


def read_origin(label: str) -> tuple[str, int] | None:
    """Workload and port."""
    found = ORIGIN.fullmatch(label)
    return (found[1], int(found[2])) if found is not None else None


def tool_of(row: Any) -> Tool | None:
    """The tool that a row describes; None: the gateway serves none of its ports."""
    declared = declaration_of(row)
    asked = frozenset(int(each) for each in declared.addresses if each.isdigit())
    if not asked or row.deleted_at is not None:
        return None
    return Tool(
        key=Key(row.id, row.revision, row.report_revision),
        name=row.name,
        project=row.project,
        department=row.department,
        cluster=row.cluster,
        kind=row.kind,
        asked=asked,
        pods=running_pods(row),
        base_path=_base_path(declared.workload.template.program.arguments),
        directory_user=directory_user_of(row),
    )


def running_pods(row: Any) -> tuple[PodAddress, ...]:
    """The pods of a workload that take connections now, in order; none from the commit on that suspends it."""
    report = of_run(report_of(row), row.run) if row.urls is not None else None
    running = [pod for pod in report.pods if pod.phase is PodPhase.RUNNING] if report is not None else []
    running.sort(key=lambda pod: pod.index)
    return tuple(PodAddress(row.cluster, pod.id, pod.node, row.id) for pod in running)


def meant(path: str, tools: Iterable[Tool]) -> list[tuple[Tool, int, str]]:
    """What a documented path means: tools with their port and the path on their origin.

    `/<job>-<port>`, `/<project>-<job>`, or the base URL of a notebook. Jobs of several projects may have one name.
    """
    first, _, rest = path.lstrip("/").partition("?")[0].partition("/")
    query = path.partition("?")[1] + path.partition("?")[2]
    found = []
    for tool in tools:
        names = {f"{tool.name}-{port}": port for port in sorted(tool.asked)} if tool.pods else {}
        for name in (f"{tool.project}-{tool.name}", tool.base_path.strip("/")):
            names.setdefault(name, min(tool.asked) if tool.pods else 0)
        port = names.get(first, 0) if first else 0
        if port:
            found.append((tool, port, f"{tool.base_path}{rest}{query}"))
    return found


def _base_path(arguments: tuple[str, ...]) -> str:
    """As a notebook is told by its arguments: `--NotebookApp.base_url=test-ingress`."""
    found = BASE_URL.search(" ".join(arguments))
    inner = found[1].strip("/") if found is not None else ""
    return f"/{inner}/" if inner and re.fullmatch(r"[\w.~/-]+", inner) and ".." not in inner else "/"
