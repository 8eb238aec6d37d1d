"""The two documents of a workload's row: its declaration and its last report. Each is read and written whole."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Self

from fairpool.api import workload_spec
from fairpool.api.clusters import WorkloadReport
from fairpool.api.declarations import WorkloadWire
from fairpool.api.message import Wire
from fairpool.model.ids import Instant

RELEASED = "/"
"""Between the name of a deleted project or department and a number: no name contains it."""
SUSPENSIONS_KEPT = 20
CLOCKS_DIFFER_MS = 5_000
"""Assumed clock skew between a cluster and the control plane, for names beside events."""


class WorkloadDeclaration(Wire):
    """What was declared: the workload as its cluster pulls it, and the request that it was made from."""

    workload: WorkloadWire
    request: dict[str, Any]
    """The specification as submitted: details show it, and updates are merged into it."""
    command_line: str
    source: workload_spec.Source
    labels: dict[str, str]
    framework: str | None
    addresses: tuple[str, ...]
    """Its ports: as a number where the gateway serves it, else as a URL of an external port."""
    external_ports: tuple[tuple[int, int], ...] = ()
    """Ports of the server's machine, each with the port of its pods that it leads to."""
    origins: tuple[tuple[str, str], ...] = ()
    """Where values of the request come from that the submit did not give: `compute.gpu` from a template."""
    changed_fields: tuple[str, ...] = ()
    """Fields of the request that updates have changed since the submit."""
    requested_name: str = ""
    """As it was submitted: a name, or the beginning of one; empty: the same, or none was given."""
    reported_addresses: tuple[str, ...] = ()
    """Where its cluster says that it is reached: instead of the URLs of external ports."""
    reported_problem: str = ""
    """Why its cluster cannot make its services or other objects."""
    suspensions: tuple[tuple[Instant, str], ...] = ()
    """When it was suspended, and by which user; the latest ones."""

    def changed(self, workload: WorkloadWire) -> Self:
        return self.model_copy(update={"workload": workload})

    def reached_at(self) -> tuple[str, ...]:
        """All its addresses: ports that the gateway serves, then URLs."""
        if not self.reported_addresses:
            return self.addresses
        return (*(each for each in self.addresses if each.isdigit()), *self.reported_addresses)

    def suspended(self, by: str, at: Instant) -> Self:
        """The same with one more suspension."""
        return self.model_copy(update={"suspensions": (*self.suspensions, (at, by))[-SUSPENSIONS_KEPT:]})

    def suspended_by(self, at: int | None = None) -> str | None:
        """The user who suspended it last, or last before an instant of the cluster; None: not recorded any more."""
        earlier = [by for when, by in self.suspensions if at is None or when <= at + CLOCKS_DIFFER_MS]
        return earlier[-1] if earlier else None


@lru_cache(maxsize=1024)
def declaration_in(document: str) -> WorkloadDeclaration:
    """A declaration from its text; cached, since the value is immutable and a text is read again and again."""
    return WorkloadDeclaration.from_json(document)


def declaration_of(row: Any) -> WorkloadDeclaration:
    return declaration_in(row.declaration)


def directory_user_of(row: Any) -> str | None:
    """The submitter, if the pods of a workload run with the numbers that a directory gives them."""
    declared = declaration_of(row).workload
    templates = [each for each in (declared.template, declared.leader) if each is not None]
    return str(row.submitted_by) if any(each.program.security.directory_user for each in templates) else None


def report_of(row: Any) -> WorkloadReport | None:
    """The last report about a workload, which may be about an earlier run."""
    return None if row.report is None else WorkloadReport.from_json(row.report)


def urls_in(text: str | None) -> list[str]:
    """Addresses as the column holds them; none where it is null."""
    return [] if text is None else text.split()


def text_of_urls(urls: Iterable[str]) -> str | None:
    """Addresses contain no spaces."""
    return " ".join(urls) or None


def former_name(name: str) -> str:
    """The name of a project or department, also of one that was deleted."""
    return name.partition(RELEASED)[0]
