"""`runai-adm set node-role` and `remove node-role`: what a node is for, as labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from fairpool.api.client import Client
from fairpool.cli.adm.nodes import known_node, overrides_of
from fairpool.cli.failure import Failure, failure, not_yet
from fairpool.cli.runai.cluster_choice import cluster_flag, nodes_of
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.session import Session
from fairpool.cli.runai.suggestions import node_names
from fairpool.cli.screen import printable
from fairpool.model.node_role import CPU_WORKER_LABEL, GPU_WORKER_LABEL, ROLE_PREFIX, SYSTEM_LABEL, are_roles_used

if TYPE_CHECKING:
    from fairpool.api.nodes import NodeAnswer


def node_role(verb: str) -> click.Command:
    """The command for one of the two verbs."""

    @command("node-role", f"runai-adm {verb} node-role --gpu-worker dgx1-1", with_project=False)
    @click.argument("names", nargs=-1, shell_complete=node_names)
    @flag("--runai-system-worker", is_flag=True, help="Node for Fairpool's own services.")
    @flag("--gpu-worker", is_flag=True, help="Node for jobs with GPUs.")
    @flag("--cpu-worker", is_flag=True, help="Node for jobs without GPUs.")
    @flag(
        "--all",
        "everywhere",
        is_flag=True,
        help="All nodes except system workers; implies --gpu-worker if no role is given.",
    )
    @cluster_flag
    @flag("--dynamic-mig-enabled", is_flag=True, hidden=True)
    @click.pass_obj
    def set_or_remove(
        options: GlobalOptions,
        names: tuple[str, ...],
        runai_system_worker: bool,
        gpu_worker: bool,
        cpu_worker: bool,
        everywhere: bool,
        cluster: str | None,
        dynamic_mig_enabled: bool,
    ) -> None:
        """Set or remove the role of nodes. Roles are stored as node labels.

        As soon as one node is a GPU or CPU worker, jobs with GPUs start on GPU workers only, other jobs on CPU workers
        only, and nodes without a role get no jobs. Running jobs stay where they are.
        """
        if dynamic_mig_enabled:
            raise Failure([not_yet("--dynamic-mig-enabled")])
        chosen = {SYSTEM_LABEL: runai_system_worker, GPU_WORKER_LABEL: gpu_worker, CPU_WORKER_LABEL: cpu_worker}
        roles = [label for label, is_chosen in chosen.items() if is_chosen]
        if everywhere and not roles:
            roles = [GPU_WORKER_LABEL]
        if not roles or (not names and not everywhere):
            fix = f"for example: runai-adm {verb} node-role --gpu-worker NODE"
            raise failure("role.incomplete", "the role or the node is missing", fix)
        _apply(options, verb, roles, None if everywhere else names, cluster)

    return set_or_remove


def _apply(
    options: GlobalOptions, verb: str, roles: list[str], names: tuple[str, ...] | None, cluster: str | None
) -> None:
    session = Session(options)
    with session.connected() as client:
        for before in _chosen(session, client, names, cluster):
            name, overrides = before.name, overrides_of(before)
            labels = {key: value for key, value in overrides["labels"].items() if key not in roles}
            if verb == "set":
                labels |= dict.fromkeys(roles, "true")
            client.override_node(name, {**overrides, "labels": labels}, before.revision, before.cluster_uuid)
            words = ", ".join(role.removeprefix(ROLE_PREFIX) for role in roles)
            click.echo(f"Node {printable(name)}: role {words} {'set' if verb == 'set' else 'removed'}.")
        if roles != [SYSTEM_LABEL]:
            _warn(options, nodes_of(session, client, cluster)[0])


def _warn(options: GlobalOptions, nodes: Iterable[NodeAnswer]) -> None:
    """Jobs that now find no node: roles of one kind of worker keep all other jobs waiting."""
    labels = [each.labels for each in nodes]
    if not are_roles_used(labels):
        return
    for label, noun, kind in ((GPU_WORKER_LABEL, "GPU", "with"), (CPU_WORKER_LABEL, "CPU", "without")):
        if not any(label in each for each in labels):
            flag_name = f"--{noun.lower()}-worker"
            options.warn(
                f"Note: no node is a {noun} worker, so jobs {kind} GPUs cannot start: "
                f"runai-adm set node-role {flag_name} NODE"
            )


def _chosen(
    session: Session, client: Client, names: tuple[str, ...] | None, cluster: str | None
) -> Iterator[NodeAnswer]:
    """The nodes of these names; None: all but system workers. Each is read when its turn comes."""
    if names is not None:
        yield from (known_node(session, client, name, cluster) for name in names)
        return
    yield from (each for each in nodes_of(session, client, cluster)[0] if SYSTEM_LABEL not in each.labels)
