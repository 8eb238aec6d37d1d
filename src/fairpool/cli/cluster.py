"""`fairpool cluster`: a cluster as a program of its own, in this terminal or in the background."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairpool.cli import server_flags, server_start
from fairpool.cli.failure import UNUSABLE, fail
from fairpool.cli.given_flags import GivenFlags
from fairpool.cli.server_flags import DEFAULT_HEALTH
from fairpool.platform.address import Address, listening_socket
from fairpool.platform.data_directory import CLUSTER, DataDirectory
from fairpool.platform.remote_control import ControlTarget, read_target

if TYPE_CHECKING:
    from fairpool.platform.remote_control import Membership


@click.command(epilog="Example: fairpool cluster --control https://fairpool.example.com --token-file east.token")
@server_flags.flags(
    server_flags.CONTROL_URL,
    server_flags.TOKEN_FILE,
    server_flags.CA_FILE,
    server_flags.DATA,
    server_flags.NODES,
    server_flags.NODE,
    server_flags.RUNTIME,
    server_flags.ALLOW_PRIVILEGE,
    server_flags.DISK_RESERVE,
    server_flags.HIDE,
    server_flags.HEALTH_LISTEN,
    server_flags.METRICS_LISTEN,
    server_flags.LOG_LEVEL,
    server_flags.CONFIG_FILE,
    server_flags.DETACH,
    server_flags.IN_BACKGROUND,
)
@click.pass_context
def cluster(
    context: click.Context,
    control: str,
    token_file: Path,
    ca_file: Path | None,
    data: Path | None,
    nodes: tuple[str, ...],
    node: tuple[str, ...],
    runtime: str | None,
    allow_privilege: tuple[str, ...],
    disk_reserve: str,
    hide: tuple[Path, ...],
    health_listen: str,
    metrics_listen: str | None,
    log_level: str,
    detach: bool,
    in_background: bool,
) -> None:
    """Start a cluster on this machine, and join a control plane: it schedules and runs the pods of its projects here.

    All connections are opened by the cluster. While the control plane is away, pods keep running and are scheduled by
    what it declared last; only a cluster that never joined waits for it. Pods keep running when the cluster is stopped
    or killed, and the next start finds them again.
    """
    target = read_target(control, token_file.expanduser(), ca_file and ca_file.expanduser())
    if isinstance(target, list):
        fail(target, UNUSABLE)
    start = StartCluster(
        server_flags.data_directory_at(data),
        target,
        health=server_flags.address_of(health_listen, DEFAULT_HEALTH),
        nodes=server_start.NodeFlags(nodes, node, runtime, allow_privilege),
        disk_reserve_bytes=server_flags.disk_reserve_bytes(disk_reserve),
        hidden=(token_file.expanduser().absolute(), *(each.expanduser().absolute() for each in hide)),
        metrics=server_flags.metrics_address(metrics_listen),
        log_level=log_level,
    )
    server_start.start(context, start, _in_background if detach else _here)


@dataclass(frozen=True, slots=True)
class StartCluster:
    """Everything needed to start in this process."""

    data_directory: DataDirectory
    target: ControlTarget
    health: Address
    nodes: server_start.NodeFlags
    disk_reserve_bytes: int
    hidden: tuple[Path, ...]
    metrics: Address | None
    log_level: str


def _here(start: StartCluster, flags: GivenFlags) -> None:
    from fairpool.platform.cluster_program import ClusterOptions, ClusterProgram
    from fairpool.platform.server_log import open_log

    data_directory = start.data_directory
    with server_start.starting(data_directory, CLUSTER, flags) as reachable_at:
        listener, health = listening_socket(start.health, "--health-listen")
        reachable_at(start.target.url)
        node_set = server_start.node_set_of(data_directory, start.nodes)
        open_log(data_directory.log, level=start.log_level)
        click.echo(f"Control  {start.target.url}")
        click.echo(f"Data     {data_directory.root}")
        click.echo(f"Health   {health.url}/readyz")
        server_start.show_nodes(node_set)
        if start.target.is_readable_on_the_way:
            click.echo(
                f"warning: the token is sent unencrypted to {start.target.url}: use https:// with --tls-cert there",
                err=True,
            )
        options = ClusterOptions(
            target=start.target,
            health=health,
            metrics=server_start.metrics_socket(start.metrics),
            node_set=node_set,
            disk_reserve_bytes=start.disk_reserve_bytes,
            hidden=start.hidden,
        )
        ClusterProgram(data_directory, options, listener).run(_say_ready, _say_waiting)
        click.echo("Stopped. Running pods are not affected; `fairpool cluster` finds them again.")


def _say_ready(member: Membership) -> None:
    click.echo(f"Cluster  {member.name}")
    click.echo("Ready. Press Ctrl-C to stop the cluster; running pods are not affected.")


def _say_waiting(why: str) -> None:
    click.echo(f"warning: waiting for the control plane, which cannot be reached yet: {why}", err=True)


def _in_background(start: StartCluster, flags: GivenFlags) -> None:
    if server_start.already_up(start.data_directory, CLUSTER, flags) is not None:
        return
    status = server_start.start_in_background(start.data_directory, CLUSTER, flags)
    server_start.say_running(status, "The cluster", start.data_directory)
