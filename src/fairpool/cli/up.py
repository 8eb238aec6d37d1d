"""`fairpool up`: the whole platform on this machine, in this terminal or in the background."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairpool.cli import server_flags, server_start
from fairpool.cli.given_flags import GivenFlags
from fairpool.model.problem import Problem
from fairpool.platform.address import Address, listening_socket, other_loopback
from fairpool.platform.data_directory import UP, DataDirectory

if TYPE_CHECKING:
    from fairpool.control.settings import Retention
    from fairpool.control.trusted_proxies import TrustedProxies
    from fairpool.platform.gateway_options import GatewayOptions


@click.command(epilog="Example: fairpool up --nodes 4x8:A100-80GB")
@server_flags.flags(
    server_flags.DATA,
    server_flags.DATABASE,
    server_flags.LISTEN,
    server_flags.HOST_NAMES,
    server_flags.TRUSTED_PROXIES,
    server_flags.GATEWAY_LISTEN,
    server_flags.GATEWAY_URL,
    server_flags.PUBLIC_URL,
    server_flags.NODES,
    server_flags.NODE,
    server_flags.RUNTIME,
    server_flags.ALLOW_PRIVILEGE,
    server_flags.KEEP_HISTORY,
    server_flags.KEEP_AUDIT,
    server_flags.KEEP_USAGE,
    server_flags.AUDIT_FORWARD,
    server_flags.DISK_RESERVE,
    server_flags.METRICS_LISTEN,
    server_flags.LOG_LEVEL,
    server_flags.CONFIG_FILE,
    server_flags.FIRST_PASSWORD_FILE,
    server_flags.DETACH,
    server_flags.IN_BACKGROUND,
)
@click.pass_context
def up(
    context: click.Context,
    data: Path | None,
    database: str,
    listen: str,
    host_names: tuple[str, ...],
    trusted_proxies: tuple[str, ...],
    gateway_listen: str | None,
    gateway_url: str | None,
    public_url: str | None,
    nodes: tuple[str, ...],
    node: tuple[str, ...],
    runtime: str | None,
    allow_privilege: tuple[str, ...],
    keep_history: str,
    keep_audit: str,
    keep_usage: str,
    audit_forward: str,
    disk_reserve: str,
    metrics_listen: str | None,
    log_level: str,
    first_password_file: Path | None,
    detach: bool,
    in_background: bool,
) -> None:
    """Start the platform on this machine: control plane, scheduler and engine in one process.

    GPUs are detected through NVML; without any, two nodes are simulated. Pods keep running when the server is stopped
    or killed, and the next start finds them again. `fairpool control` and `fairpool cluster` are the same as two
    programs.
    """
    server_flags.check_host_names(host_names)
    start = StartPlatform(
        server_flags.data_directory_at(data),
        server_flags.address_of(listen),
        host_names=host_names,
        trusted_proxies=server_flags.trusted_proxies_of(trusted_proxies),
        gateway=server_flags.gateway_options(gateway_listen, gateway_url, public_url),
        nodes=server_start.NodeFlags(nodes, node, runtime, allow_privilege),
        retention=server_flags.retention_of(
            {"--keep-history": keep_history, "--keep-audit": keep_audit, "--keep-usage": keep_usage}
        ),
        audit_forward=server_flags.audit_target_of(audit_forward),
        disk_reserve_bytes=server_flags.disk_reserve_bytes(disk_reserve),
        metrics=server_flags.metrics_address(metrics_listen),
        log_level=log_level,
        database=server_flags.database_location(context, database),
        first_password=server_flags.first_password_in(first_password_file),
        with_welcome=not in_background,
    )
    server_start.start(context, start, _in_background if detach else _here)


@dataclass(frozen=True, slots=True)
class StartPlatform:
    """Everything needed to start in this process."""

    data_directory: DataDirectory
    address: Address
    host_names: tuple[str, ...]
    trusted_proxies: TrustedProxies
    gateway: GatewayOptions
    nodes: server_start.NodeFlags
    retention: Retention
    audit_forward: str
    disk_reserve_bytes: int
    metrics: Address | None
    log_level: str
    database: str = field(repr=False)
    first_password: str = field(repr=False)
    with_welcome: bool = True


def _here(start: StartPlatform, flags: GivenFlags) -> None:
    from fairpool.cli.welcome import LocalUser, shown_addresses
    from fairpool.platform.assembly import Platform
    from fairpool.platform.control_server import ControlOptions
    from fairpool.platform.gateway_server import bind_gateway
    from fairpool.platform.server_log import open_log

    data_directory = start.data_directory
    with server_start.starting(data_directory, UP, flags) as reachable_at:
        listener, address = listening_socket(start.address)
        other = other_loopback(listener)
        gateway = bind_gateway(data_directory, start.gateway, address, start.host_names)
        reachable_at(address.url)
        server_start.check_database(data_directory, start.database, may_be_new=not data_directory.ledger.exists())
        node_set = server_start.node_set_of(data_directory, start.nodes)
        open_log(data_directory.log, level=start.log_level)
        server_start.warn_of(other, gateway.warning)
        for line in shown_addresses(address, gateway.address.url, data_directory):
            click.echo(line)
        server_start.show_nodes(node_set)
        options = ControlOptions(
            address=address,
            retention=start.retention,
            audit_forward=start.audit_forward,
            host_names=start.host_names,
            trusted_proxies=start.trusted_proxies,
            first_password=start.first_password,
            database=start.database,
            gateway=gateway,
            metrics=server_start.metrics_socket(start.metrics),
            other_listener=None if isinstance(other, Problem) else other,
        )
        platform = Platform(data_directory, options, listener, node_set, start.disk_reserve_bytes)
        user = LocalUser(data_directory, address.url)

        def ready(answer: Mapping[str, Any] | Problem) -> None:
            if start.with_welcome:
                server_start.welcome_here(user, answer)
            click.echo("Ready. Press Ctrl-C to stop the server; running pods are not affected.")

        platform.run(ready, user.question() if start.with_welcome else {})
        click.echo("Stopped. Running pods are not affected; `fairpool up` finds them again.")


def _in_background(start: StartPlatform, flags: GivenFlags) -> None:
    server_start.in_background_with_welcome(
        start.data_directory,
        UP,
        flags,
        start.first_password,
        "Fairpool",
        database=start.database,
    )
