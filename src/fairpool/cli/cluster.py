"""`fairpool cluster`: a cluster as a program of its own, in this terminal or in the background."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairpool.cli import kubernetes_flags, server_flags, server_start
from fairpool.cli.failure import UNUSABLE, fail
from fairpool.cli.given_flags import GivenFlags
from fairpool.cli.server_flags import DEFAULT_HEALTH
from fairpool.platform.address import Address, listening_socket
from fairpool.platform.data_directory import CLUSTER, DataDirectory
from fairpool.platform.remote_control import ControlTarget, read_target

if TYPE_CHECKING:
    from fairpool.platform.kubernetes_cluster import KubernetesOptions, KubernetesSite
    from fairpool.platform.local_cluster import LocalSite
    from fairpool.platform.remote_control import Membership


@click.command(epilog="Example: fairpool cluster --control https://fairpool.example.com --token-file east.token")
@server_flags.flags(
    server_flags.CONTROL_URL,
    server_flags.TOKEN_FILE,
    server_flags.CA_FILE,
    server_flags.DATA,
    kubernetes_flags.ENGINE,
    server_flags.NODES,
    server_flags.NODE,
    server_flags.RUNTIME,
    server_flags.ALLOW_PRIVILEGE,
    server_flags.DISK_RESERVE,
    server_flags.HIDE,
    *kubernetes_flags.FLAGS,
    server_flags.HEALTH_LISTEN,
    server_flags.METRICS_LISTEN,
    server_flags.LOG_LEVEL,
    server_flags.LOG_OUTPUT,
    server_flags.CONFIG_FILE,
    server_flags.DETACH,
    server_flags.IN_BACKGROUND,
)
@click.pass_context
def cluster(
    context: click.Context,
    /,
    control: str,
    token_file: Path,
    ca_file: Path | None,
    data: Path | None,
    engine: str,
    nodes: tuple[str, ...],
    node: tuple[str, ...],
    runtime: str | None,
    allow_privilege: tuple[str, ...],
    disk_reserve: str,
    hide: tuple[Path, ...],
    health_listen: str,
    metrics_listen: str | None,
    log_level: str,
    log_output: str,
    detach: bool,
    in_background: bool,
    **of_kubernetes: Any,
) -> None:
    """Start a cluster, and join a control plane: it schedules and runs the pods of its projects, on this machine or on
    Kubernetes.

    All connections are opened by the cluster. While the control plane is away, pods keep running and are scheduled by
    what it declared last; only a cluster that never joined waits for it. Pods keep running when the cluster is stopped
    or killed, and the next start finds them again.
    """
    target = read_target(control, token_file.expanduser(), ca_file and ca_file.expanduser())
    if isinstance(target, list):
        fail(target, UNUSABLE)
    if not in_background:  # which gets values of environment variables as flags
        kubernetes_flags.check_engine(context, engine)
    kubernetes = None
    if engine == kubernetes_flags.KUBERNETES:
        kubernetes = kubernetes_flags.kubernetes_options(context, of_kubernetes, allow_privilege)
    start = StartCluster(
        server_flags.data_directory_at(data),
        target,
        health=server_flags.address_of(health_listen, DEFAULT_HEALTH),
        kubernetes=kubernetes,
        nodes=server_start.NodeFlags(nodes, node, runtime, allow_privilege),
        disk_reserve_bytes=server_flags.disk_reserve_bytes(disk_reserve),
        hidden=(token_file.expanduser().absolute(), *(each.expanduser().absolute() for each in hide)),
        metrics=server_flags.metrics_address(metrics_listen),
        log_level=log_level,
        log_to_stderr=log_output == "stderr",
    )
    server_start.start(context, start, _in_background if detach else _here)


@dataclass(frozen=True, slots=True)
class StartCluster:
    """Everything needed to start in this process."""

    data_directory: DataDirectory
    target: ControlTarget
    health: Address
    kubernetes: KubernetesOptions | None
    """None: pods run on this machine."""
    nodes: server_start.NodeFlags
    disk_reserve_bytes: int
    hidden: tuple[Path, ...]
    metrics: Address | None
    log_level: str
    log_to_stderr: bool


def _here(start: StartCluster, flags: GivenFlags) -> None:
    from fairpool.platform.cluster_program import ClusterOptions, ClusterProgram
    from fairpool.platform.server_log import open_log

    data_directory = start.data_directory
    with server_start.starting(data_directory, CLUSTER, flags) as reachable_at:
        listener, health = listening_socket(start.health, "--health-listen")
        reachable_at(start.target.url)
        site = _site(start)
        open_log(data_directory.log, level=start.log_level, to_stderr=start.log_to_stderr)
        click.echo(f"Control  {start.target.url}")
        click.echo(f"Data     {data_directory.root}")
        click.echo(f"Health   {health.url}/readyz")
        _show_site(site)
        if start.target.is_readable_on_the_way:
            click.echo(
                f"warning: the token is sent unencrypted to {start.target.url}: use https:// with --tls-cert there",
                err=True,
            )
        options = ClusterOptions(
            target=start.target,
            health=health,
            metrics=server_start.metrics_socket(start.metrics),
            site=site,
        )
        ClusterProgram(data_directory, options, listener).run(_say_ready, _say_waiting)
        click.echo("Stopped. Running pods are not affected; `fairpool cluster` finds them again.")


def _site(start: StartCluster) -> LocalSite | KubernetesSite:
    if start.kubernetes is not None:
        from fairpool.platform.kubernetes_cluster import KubernetesSite

        return KubernetesSite(start.kubernetes, start.data_directory)
    from fairpool.platform.local_cluster import LocalSite

    node_set = server_start.node_set_of(start.data_directory, start.nodes)
    return LocalSite(node_set=node_set, disk_reserve_bytes=start.disk_reserve_bytes, hidden=start.hidden)


def _show_site(site: LocalSite | KubernetesSite) -> None:
    from fairpool.platform.local_cluster import LocalSite

    if isinstance(site, LocalSite):
        server_start.show_nodes(site.node_set)
        return
    click.echo(f"Nodes    {site.summary}")
    if site.ledger:
        click.echo(f"Ledger   {site.ledger}")


def _say_ready(member: Membership) -> None:
    click.echo(f"Cluster  {member.name}")
    click.echo("Ready. Press Ctrl-C to stop the cluster; running pods are not affected.")


def _say_waiting(why: str) -> None:
    click.echo(f"warning: waiting for {why}", err=True)


def _in_background(start: StartCluster, flags: GivenFlags) -> None:
    if server_start.already_up(start.data_directory, CLUSTER, flags) is not None:
        return
    ledger = start.kubernetes.ledger if start.kubernetes is not None else ""
    secrets = {kubernetes_flags.LEDGER_VARIABLE: ledger} if ledger else {}
    status = server_start.start_in_background(start.data_directory, CLUSTER, flags, secrets=secrets)
    server_start.say_running(status, "The cluster", start.data_directory)
