"""Scenario files: from TOML to a `Scenario`, or all that is wrong with it. docs/reference/scenario-file.md is the page.

Here are the cluster and who owns quota in it; what happens to them is read in `step_tables.py`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field

from fairpool.api.limits import LABEL_NAME_MAX, PROJECT_NAME_MAX
from fairpool.model.ids import NodeName, PoolName, QueueId
from fairpool.model.node import DEFAULT_POOL, Node, NodePool
from fairpool.model.organization import (
    Organization,
    OverQuotaChoice,
    ProjectRules,
    Queue,
    department_queue,
    gpu_entitlement,
    name_of_queue,
    with_derived_quotas,
)
from fairpool.model.problem import Problem
from fairpool.model.quantity import GIB, UNLIMITED
from fairpool.model.spelling import did_you_mean
from fairpool.simulation.job_table import Delays
from fairpool.simulation.scenario import Scenario
from fairpool.simulation.step_tables import KnownNames, Reader
from fairpool.simulation.toml_table import Findings, Table, twice

POOL_LABEL = "fairpool/pool"
NODES_MAX = 10_000


def read(text: str, name: str) -> Scenario | list[Problem]:
    """The scenario in a text; `name` is what it is called if it does not say so itself."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return [_not_toml(error)]
    findings = Findings(text)
    top = Table(findings, values, "")
    named, title, seed = top.text("name", name), top.text("title"), top.whole("seed", 0, most=2**31)
    nodes = _nodes(top.tables("nodes", "node"))
    organization, projects, followers = _organization(top, nodes)
    delays_table = top.table("delays")
    delays = Delays.read(delays_table, seed) if delays_table is not None else Delays(seed=seed)
    if delays_table is not None:
        delays_table.refuse_others("delays")
    known_names = KnownNames(
        nodes={node.name: node for node in nodes},
        queues={name_of_queue(queue.id): queue.id for queue in organization.queues[DEFAULT_POOL]},
        projects=dict.fromkeys(projects),
        pools=dict.fromkeys(pool.name for pool in organization.pools),
    )
    reader = Reader(known_names, delays)
    phases = tuple(reader.phase(each) for each in top.tables("phases", "phase"))
    _complain_about_the_whole(top, nodes, bool(phases))
    if findings.problems:
        return findings.problems
    return Scenario(
        name=named,
        title=title,
        nodes=tuple(nodes),
        organization=organization,
        followers=followers,
        phases=phases,
        behaviours=reader.behaviours,
    )


def _not_toml(error: tomllib.TOMLDecodeError) -> Problem:
    place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
    said = re.sub(r" *\(at .*\)", "", str(error))
    at = f"line {place[1]}, column {place[2]}: " if place else "at the end of the file: "
    fix = 'see that quotes and brackets are closed; a step is one line: { submit = "a", project = "p", gpus = 1 }'
    return Problem("scenario.toml", f"{at}this is not TOML: {said[:1].lower()}{said[1:]}", fix)


def _complain_about_the_whole(top: Table, nodes: Sequence[Node], has_phases: bool) -> None:
    if "nodes" not in top:
        top.complain("", "missing", "the scenario has no nodes", "add [[nodes]] with name and gpus")
    if "projects" not in top:
        top.complain("", "missing", "the scenario has no projects", "add [[projects]] with name and quota")
    if not has_phases and "phases" not in top:
        top.complain("", "missing", "nothing happens in the scenario", "add [[phases]] with name and steps = [...]")
    for name in twice(node.name for node in nodes):
        top.complain("nodes", "twice", f"there are two nodes {name!r}", "give each its own name, or use count")
    top.refuse_others("a scenario")


# --- nodes ----------------------------------------------------------------------------------------------------------


def _nodes(tables: Sequence[Table]) -> list[Node]:
    return [node for table in tables for node in _alike(table)]


def _alike(table: Table) -> list[Node]:
    """The nodes of one table: one, or so many with a number behind the name."""
    name, count = table.name("name"), table.whole("count", None, least=1, most=NODES_MAX)
    gpus = table.whole("gpus", 0, most=1024)
    gpu_memory_mib = table.whole("gpu_memory", 0, most=10**7)
    cpu_milli = table.amount("cpus", 64_000)
    memory_bytes = table.memory("memory", 512 * GIB)
    pods_max = table.whole("pods_max", 110, least=1)
    labels, pool = table.pairs("labels"), DEFAULT_POOL
    if "pool" in table:
        pool = PoolName(table.declared_name("pool", LABEL_NAME_MAX)) or DEFAULT_POOL
    if pool != DEFAULT_POOL:
        labels = {**labels, POOL_LABEL: pool}
    table.refuse_others("a node")
    names = [name] if count is None else [f"{name.rstrip('-')}-{number}" for number in range(1, count + 1)]
    return [
        Node(
            name=NodeName(each),
            cpu_milli=cpu_milli,
            memory_bytes=memory_bytes,
            pods_max=pods_max,
            gpus=gpus,
            gpu_memory_mib=gpu_memory_mib,
            labels=labels,
        )
        for each in names
        if name
    ]


# --- who owns quota -------------------------------------------------------------------------------------------------


Followers = frozenset[tuple[PoolName, QueueId]]


@dataclass
class _Owners:
    """Departments and projects, in each pool."""

    pools: tuple[PoolName, ...]
    queues: dict[PoolName, list[Queue]] = field(default_factory=dict)
    followers: set[tuple[PoolName, QueueId]] = field(default_factory=set)
    rules: dict[QueueId, ProjectRules] = field(default_factory=dict)

    def add(self, table: Table, noun: str, departments: Sequence[str]) -> None:
        said_name = table.declared_name("name", PROJECT_NAME_MAX)
        name = department_queue(said_name) if noun == "a department" else QueueId(said_name)
        above = table.text("department") if noun == "a project" else ""
        if above and above not in departments:
            there = f"add it with [[departments]]; there are: {', '.join(departments) or 'none'}"
            what = f"there is no department {above!r}"
            table.complain("department", "unknown", what, did_you_mean(above, departments, there))
        said = table.values.get("quota")
        silent = [pool for pool in self.pools if pool not in (said if isinstance(said, dict) else (DEFAULT_POOL,))]
        if noun == "a department":
            self.followers |= {(pool, name) for pool in (self.pools if said is None else silent)}
        quotas, limit = _quotas(table, self.pools), table.bound("limit", UNLIMITED)
        over_quota = table.word("over_quota", OverQuotaChoice)
        priority = table.whole("priority", 100, most=1000)
        longest_s = table.seconds("interactive_limit_s", None) if noun == "a project" else None
        runtime_s = table.seconds("min_runtime_s", None)
        table.refuse_others(noun)
        if longest_s is not None:
            self.rules[name] = ProjectRules(interactive_limit_s=max(1, round(longest_s)))
        for pool in self.pools:
            queue = Queue(
                id=name,
                parent=department_queue(above) if above else None,
                priority=priority,
                gpu=gpu_entitlement(quotas.get(pool, 0), over_quota, limit_milli=limit),
                over_quota=over_quota,
                gpu_limit_milli=limit,
                preempt_min_runtime_s=None if runtime_s is None else round(runtime_s),
                reclaim_min_runtime_s=None if runtime_s is None else round(runtime_s),
            )
            self.queues.setdefault(pool, []).append(queue)


def _organization(top: Table, nodes: Sequence[Node]) -> tuple[Organization, list[QueueId], Followers]:
    """All of it, which queues are projects, for only those hold jobs, and which departments follow theirs."""
    named = sorted({PoolName(node.labels[POOL_LABEL]) for node in nodes if POOL_LABEL in node.labels})
    pools = (NodePool(), *(NodePool(name=name, label_key=POOL_LABEL, label_value=name) for name in named))
    owners = _Owners(tuple(pool.name for pool in pools), {pool.name: [] for pool in pools})
    departments = top.tables("departments", "department")
    names = [str(table.values["name"]) for table in departments if "name" in table]
    for table in departments:
        owners.add(table, "a department", ())
    projects = top.tables("projects", "project")
    for table in projects:
        owners.add(table, "a project", names)
    for name in twice(name_of_queue(queue.id) for queue in owners.queues[DEFAULT_POOL]):
        what = f"there are two projects or departments {name!r}"
        top.complain("projects", "twice", what, "give each its own name")
    queues = {
        pool: with_derived_quotas(each, {name for where, name in owners.followers if where == pool})
        for pool, each in owners.queues.items()
    }
    leaves = [QueueId(str(table.values["name"])) for table in projects if "name" in table]
    return Organization(queues=queues, rules=owners.rules, pools=pools), leaves, frozenset(owners.followers)


def _quotas(table: Table, pools: Sequence[PoolName]) -> dict[PoolName, int]:
    """What is owed in each pool: `quota = 4` is in the default pool, `quota = { a100 = 4 }` in that one."""
    if not isinstance(table.values.get("quota"), dict):
        return {DEFAULT_POOL: table.bound("quota", 0)}
    by_pool = table.table("quota")
    assert by_pool is not None
    quotas = {pool: by_pool.bound(pool, 0) for pool in pools}
    by_pool.refuse_others("a quota")
    return quotas
