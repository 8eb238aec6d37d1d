"""`fairpool control`: the control plane as a program of its own, in this terminal or in the background."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairpool.cli import server_flags, server_start
from fairpool.cli.failure import UNUSABLE, fail
from fairpool.cli.given_flags import GivenFlags
from fairpool.model.problem import Problem
from fairpool.platform.address import Address, listening_socket, other_loopback
from fairpool.platform.data_directory import CONTROL, DataDirectory

if TYPE_CHECKING:
    from fairpool.platform.control_server import ControlOptions, TlsFiles
    from fairpool.platform.gateway_options import GatewayOptions


@click.command(epilog="Example: fairpool control --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem")
@server_flags.flags(
    server_flags.DATA,
    server_flags.DATABASE,
    server_flags.KEYS,
    server_flags.PEER_LISTEN,
    server_flags.LISTEN,
    server_flags.HOST_NAMES,
    server_flags.TRUSTED_PROXIES,
    server_flags.GATEWAY_LISTEN,
    server_flags.GATEWAY_URL,
    server_flags.PUBLIC_URL,
    server_flags.TLS_CERT,
    server_flags.TLS_KEY,
    server_flags.KEEP_HISTORY,
    server_flags.KEEP_AUDIT,
    server_flags.KEEP_USAGE,
    server_flags.AUDIT_FORWARD,
    server_flags.METRICS_LISTEN,
    server_flags.LOG_LEVEL,
    server_flags.LOG_OUTPUT,
    server_flags.CONFIG_FILE,
    server_flags.FIRST_PASSWORD_FILE,
    server_flags.DETACH,
    server_flags.IN_BACKGROUND,
)
@click.pass_context
def control(
    context: click.Context,
    data: Path | None,
    database: str,
    keys: Path | None,
    peer_listen: str,
    listen: str,
    host_names: tuple[str, ...],
    trusted_proxies: tuple[str, ...],
    gateway_listen: str | None,
    gateway_url: str | None,
    public_url: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    keep_history: str,
    keep_audit: str,
    keep_usage: str,
    audit_forward: str,
    metrics_listen: str | None,
    log_level: str,
    log_output: str,
    first_password_file: Path | None,
    detach: bool,
    in_background: bool,
) -> None:
    """Start a control plane: API, users, projects, quotas and workloads, for clusters that connect to it.

    Add a cluster with `runai-adm cluster create NAME --token-file FILE`, and start it with `fairpool cluster`. Clusters
    keep running their pods while the control plane is stopped. Health: /healthz and /readyz.
    """
    from fairpool.platform.control_server import ControlOptions

    server_flags.check_host_names(host_names)
    tls = _tls_files(tls_cert, tls_key)
    address = server_flags.address_of(listen)
    options = ControlOptions(
        address=address if tls is None else replace(address, scheme="https"),
        retention=server_flags.retention_of(
            {"--keep-history": keep_history, "--keep-audit": keep_audit, "--keep-usage": keep_usage}
        ),
        audit_forward=server_flags.audit_target_of(audit_forward),
        host_names=host_names,
        trusted_proxies=server_flags.trusted_proxies_of(trusted_proxies),
        first_password=server_flags.first_password_in(first_password_file),
        tls=tls,
        database=server_flags.database_location(context, database),
        keys=keys.expanduser().absolute() if keys is not None else None,
    )
    start = StartControl(
        server_flags.data_directory_at(data),
        options,
        server_flags.gateway_options(gateway_listen, gateway_url, public_url),
        server_flags.address_of(peer_listen, server_flags.DEFAULT_PEERS),
        server_flags.metrics_address(metrics_listen),
        log_level,
        log_output == "stderr",
        with_welcome=not in_background,
    )
    server_start.start(context, start, _in_background if detach else _here)


@dataclass(frozen=True, slots=True)
class StartControl:
    """Everything needed to start in this process."""

    data_directory: DataDirectory
    options: ControlOptions
    gateway: GatewayOptions
    peer_listen: Address
    metrics: Address | None
    log_level: str
    log_to_stderr: bool
    with_welcome: bool


def _tls_files(certificate: Path | None, key: Path | None) -> TlsFiles | None:
    from fairpool.platform.control_server import TlsFiles

    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "--tls-cert" if certificate is None else "--tls-key"
        fail([Problem("tls.incomplete", f"{missing} is missing", "pass both --tls-cert and --tls-key")], UNUSABLE)
    files = TlsFiles(certificate, key)
    problem = files.problem()
    if problem is not None:
        fail([problem], UNUSABLE)
    return files


def _here(start: StartControl, flags: GivenFlags) -> None:
    from fairpool.cli.welcome import LocalUser, shown_addresses
    from fairpool.platform.control_program import ControlProgram
    from fairpool.platform.gateway_server import bind_gateway
    from fairpool.platform.peer_link import bind_peers
    from fairpool.platform.server_log import open_log

    data_directory = start.data_directory
    with server_start.starting(data_directory, CONTROL, flags) as reachable_at:
        listener, address = listening_socket(start.options.address)
        other = other_loopback(listener)
        gateway = bind_gateway(data_directory, start.gateway, address, start.options.host_names)
        peers = bind_peers(start.peer_listen) if start.options.database else None
        reachable_at(address.url)
        server_start.check_database(data_directory, start.options.database, may_be_new=True)
        open_log(data_directory.log, level=start.log_level, to_stderr=start.log_to_stderr)
        server_start.warn_of(other, gateway.warning)
        for line in shown_addresses(address, gateway.address.url, data_directory):
            click.echo(line)
        user = LocalUser(data_directory, address.url)

        def ready(answer: Mapping[str, Any] | Problem) -> None:
            if start.with_welcome:
                server_start.welcome_here(user, answer)
            click.echo("Ready. Press Ctrl-C to stop the control plane; clusters keep running their pods.")

        second = None if isinstance(other, Problem) else other
        metrics = server_start.metrics_socket(start.metrics)
        bound = replace(start.options, address=address, gateway=gateway, peers=peers)
        options = replace(bound, other_listener=second, metrics=metrics)
        program = ControlProgram(data_directory, options, listener)
        program.run(ready, user.question() if start.with_welcome else {})
        click.echo("Stopped. Clusters keep running their pods.")


def _in_background(start: StartControl, flags: GivenFlags) -> None:
    password = start.options.first_password
    server_start.in_background_with_welcome(
        start.data_directory,
        CONTROL,
        flags,
        password,
        "The control plane",
        database=start.options.database,
    )
