"""Flags of the commands that run a server (`up`, `control`, `cluster`), and how their values are read.

Each can also be set by an environment variable and in the file of `--config-file`, in this order. A value that cannot
be used ends the command before anything is started.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairpool.cli.failure import UNUSABLE, exit_code_of, fail
from fairpool.model.problem import Problem
from fairpool.model.spelling import did_you_mean
from fairpool.platform.address import DEFAULT, Address, read_address
from fairpool.platform.data_directory import DataDirectory, PlatformError, default_data

if TYPE_CHECKING:
    from fairpool.control.settings import Retention
    from fairpool.control.trusted_proxies import TrustedProxies
    from fairpool.platform.gateway_options import GatewayOptions

C = TypeVar("C", bound=Callable[..., Any])

HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\.?")
CONFIG_FILE_VARIABLE = "FAIRPOOL_CONFIG_FILE"
NOT_IN_FILES = frozenset({"config_file", "detach", "in_background", "help"})
DATABASE_VARIABLE = "FAIRPOOL_DATABASE"
DEFAULT_HEALTH = "127.0.0.1:8081"
DEFAULT_PEERS = "127.0.0.1:0"
DEFAULT_METRICS = "127.0.0.1:9464"


def _read_config_file(context: click.Context, _: click.Parameter, file: Path | None) -> None:
    """What the file says becomes the default of each flag."""
    if file is None:
        return
    import tomllib

    try:
        with file.open("rb") as opened:
            content = tomllib.load(opened)
    except OSError as error:
        what = f"--config-file: {file} cannot be read: {(error.strerror or str(error)).lower()}"
        fail([Problem("config_file.unreadable", what, "check its name and permissions")], UNUSABLE)
    except ValueError as error:
        fail([Problem("config_file.not_toml", f"--config-file: {file} is not TOML: {error}", "correct it")], UNUSABLE)
    known = {
        each.opts[0].removeprefix("--"): each
        for each in context.command.params
        if isinstance(each, click.Option) and each.name not in NOT_IN_FILES
    }
    problems, values = [], {}
    for key, value in content.items():
        flag = known.get(key)
        if flag is None:
            fix = did_you_mean(key, known) or f"see `{context.command_path} --help`"
            problems.append(Problem("config_file.unknown", f"{file}: there is no setting {key!r}", fix))
        elif (text := _setting(flag, value, file.absolute().parent)) is None:
            expected = "a list of texts" if flag.multiple else "a text or a number"
            problems.append(Problem("config_file.value", f"{file}: {key} must be {expected}", "correct it"))
        else:
            values[str(flag.name)] = text
    if problems:
        fail(problems, UNUSABLE)
    context.default_map = {**(context.default_map or {}), **values}


def _setting(flag: click.Option, value: object, folder: Path) -> str | list[str] | None:
    """A value of the file as one would type it; None: it cannot be one. Paths are relative to the file's folder."""
    if flag.multiple:
        each = [_setting_text(flag, item, folder) for item in value] if isinstance(value, list) else [None]
        return None if None in each else [text for text in each if text is not None]
    return _setting_text(flag, value, folder)


def _setting_text(flag: click.Option, value: object, folder: Path) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    is_path = isinstance(flag.type, click.Path) and value != "-"
    return str(folder / Path(str(value)).expanduser()) if is_path else str(value)


DATA = click.option(
    "--data",
    envvar="FAIRPOOL_DATA",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Data directory. Default: fairpool in the user's XDG data directory. Also: FAIRPOOL_DATA.",
)
DATABASE = click.option(
    "--database",
    envvar=DATABASE_VARIABLE,
    default="",
    metavar="URL",
    help="PostgreSQL database of the control plane: postgresql://USER@HOST/NAME, also with several hosts, sslmode and "
    "sslrootcert. Put the password into PGPASSFILE, PGPASSWORD or this variable: flags are visible to other users. "
    f"Default: a file in the data directory. Also: {DATABASE_VARIABLE}.",
)
KEYS = click.option(
    "--keys",
    envvar="FAIRPOOL_KEYS",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Directory with the keys of credentials and tokens, which all control planes of one database must share. "
    "Default: the data directory. Also: FAIRPOOL_KEYS.",
)
CONFIG_FILE = click.option(
    "--config-file",
    envvar=CONFIG_FILE_VARIABLE,
    type=click.Path(path_type=Path),
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_read_config_file,
    help='TOML file with values for these flags, such as `log-level = "debug"`. Flags and environment variables '
    f"override it. Also: {CONFIG_FILE_VARIABLE}.",
)


def _with_default(name: str, default: str, metavar: str, words: str) -> Callable[[C], C]:
    """A flag that has a value also where none is given; its environment variable is named after it."""
    variable = f"FAIRPOOL_{name.removeprefix('--').replace('-', '_').upper()}"
    return click.option(
        name,
        envvar=variable,
        default=default,
        show_default=True,
        metavar=metavar,
        help=f"{words} Also: {variable}.",
    )


LISTEN = _with_default("--listen", DEFAULT, "HOST:PORT", "Address to listen on; port 0 picks a free port.")
PEER_LISTEN = _with_default(
    "--peer-listen",
    DEFAULT_PEERS,
    "HOST:PORT",
    "Address where other control planes of the same database reach this one: each hands requests for a cluster to the "
    "one that the cluster is connected to. With control planes on several machines, name an address that the others "
    "can reach. Needs no certificate.",
)
HOST_NAMES = click.option(
    "--host-name",
    "host_names",
    envvar="FAIRPOOL_HOST_NAME",
    multiple=True,
    metavar="NAME",
    help="Additional host name to answer to, besides this machine's own names. Requests for other host names are "
    "refused, to protect against DNS rebinding. Repeatable. Also: FAIRPOOL_HOST_NAME, separated by spaces.",
)
TRUSTED_PROXIES = click.option(
    "--trusted-proxy",
    "trusted_proxies",
    envvar="FAIRPOOL_TRUSTED_PROXY",
    multiple=True,
    metavar="CIDR",
    help="Address or network of a proxy or load balancer in front of this server: 10.0.0.7 or 10.0.0.0/24. From there, "
    "and only from there, X-Forwarded-For names the client. Repeatable. Also: FAIRPOOL_TRUSTED_PROXY, separated by "
    "spaces.",
)
GATEWAY_LISTEN = click.option(
    "--gateway-listen",
    envvar="FAIRPOOL_GATEWAY_LISTEN",
    metavar="HOST:PORT",
    help="Address of the gateway to web tools in pods; port 0 picks a free port. Default: port 8088 of this machine "
    "only, or another if it is taken. Also: FAIRPOOL_GATEWAY_LISTEN.",
)
GATEWAY_URL = click.option(
    "--gateway-url",
    envvar="FAIRPOOL_GATEWAY_URL",
    metavar="URL",
    help="URL under which users reach the gateway: https://tools.example.com. Each tool has a host name below it, so "
    "*.tools.example.com must lead here too. Default: names below localhost. Also: FAIRPOOL_GATEWAY_URL.",
)
PUBLIC_URL = click.option(
    "--public-url",
    envvar="FAIRPOOL_PUBLIC_URL",
    metavar="URL",
    help="URL under which browsers reach this server; the gateway sends them there to sign in. Default: from --listen "
    "and --host-name. Also: FAIRPOOL_PUBLIC_URL.",
)
TLS_CERT = click.option(
    "--tls-cert",
    envvar="FAIRPOOL_TLS_CERT",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Serve HTTPS with this certificate: a PEM file, with its chain. Also: FAIRPOOL_TLS_CERT.",
)
TLS_KEY = click.option(
    "--tls-key",
    envvar="FAIRPOOL_TLS_KEY",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Private key of the certificate. Also: FAIRPOOL_TLS_KEY.",
)
NODES = click.option(
    "--nodes",
    multiple=True,
    metavar="SPEC",
    help="Simulate nodes instead of using this machine: 2x8:V100-32GB is two nodes with eight GPUs each. `machine` "
    "uses this machine's own GPUs, if any (the default); `simulated` is two nodes with 8 V100s each. Saved for later.",
)
NODE = click.option(
    "--node",
    multiple=True,
    metavar="SPEC",
    help="Add one node: name=big,gpus=4,model=H100,memory=80GB,cpus=64,ram=512GB,label=rack=a,runtime=podman.",
)
RUNTIME = click.option(
    "--runtime",
    envvar="FAIRPOOL_RUNTIME",
    type=click.Choice(["process", "podman", "docker"]),
    help="How pods run: as processes of this machine (the default), or in containers, which needs root. Saved for "
    "later. Also: FAIRPOOL_RUNTIME.",
)
ALLOW_PRIVILEGE = click.option(
    "--allow-privilege",
    multiple=True,
    type=click.Choice(["host-network", "host-ipc", "user", "capabilities"]),
    help="Let pods in containers use the node's network or IPC namespace, run as any user, or have capabilities. "
    "Repeatable; nothing is allowed by default.",
)
KEEP_HISTORY = _with_default(
    "--keep-history", "30d", "AGE", "How long to keep deleted jobs and events: 90s, 10m, 2h, 30d."
)
KEEP_AUDIT = _with_default("--keep-audit", "365d", "AGE", "How long to keep the audit log.")
KEEP_USAGE = _with_default(
    "--keep-usage", "35d", "AGE", "How long to keep what single pods used; sums of hours are kept."
)
AUDIT_FORWARD = click.option(
    "--audit-forward",
    envvar="FAIRPOOL_AUDIT_FORWARD",
    default="",
    metavar="TARGET",
    help="Forward audit entries to file:/path, syslog+udp://host:514, syslog+tcp://host:514 or syslog+unix:/dev/log. "
    "Also: FAIRPOOL_AUDIT_FORWARD.",
)
DISK_RESERVE = _with_default(
    "--disk-reserve",
    "1GiB",
    "SIZE",
    "Disk space reserved for the server. When the disk is full, the pod that fills it is stopped. 0 disables the "
    "reserve.",
)
LOG_LEVEL = click.option(
    "--log-level",
    envvar="FAIRPOOL_LOG_LEVEL",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Minimum level of the server's log. Also: FAIRPOOL_LOG_LEVEL.",
)
LOG_OUTPUT = click.option(
    "--log-output",
    envvar="FAIRPOOL_LOG_OUTPUT",
    default="file",
    show_default=True,
    type=click.Choice(["file", "stderr"]),
    help="Write the server's log to files in the data directory, or to standard error, as containers do. Also: "
    "FAIRPOOL_LOG_OUTPUT.",
)
FIRST_PASSWORD_FILE = click.option(
    "--first-password-file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Set the password of the first account (test@run.ai) to the first line of FILE (`-`: standard input), if the "
    "account has none. It must be changed at the first sign-in; until then, one of fewer than 20 characters keeps the "
    "server from listening on other addresses than this machine's own. Without this flag the account has no password, "
    "and only the user who starts the platform is signed in.",
)
CONTROL_URL = click.option(
    "--control",
    envvar="FAIRPOOL_CONTROL",
    required=True,
    metavar="URL",
    help="Address of the control plane: https://fairpool.example.com. Also: FAIRPOOL_CONTROL.",
)
TOKEN_FILE = click.option(
    "--token-file",
    envvar="FAIRPOOL_TOKEN_FILE",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the token of this cluster, as `runai-adm cluster create NAME --token-file FILE` writes it. Also: "
    "FAIRPOOL_TOKEN_FILE.",
)
CA_FILE = click.option(
    "--ca-file",
    envvar="FAIRPOOL_CA_FILE",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Certificate of the authority that signed the control plane's certificate, if it is a private one: a PEM "
    "file. Default: the authorities that this machine trusts. Also: FAIRPOOL_CA_FILE.",
)
HEALTH_LISTEN = _with_default(
    "--health-listen",
    DEFAULT_HEALTH,
    "HOST:PORT",
    "Address of /healthz, /readyz and /metrics; port 0 picks a free port.",
)
METRICS_LISTEN = click.option(
    "--metrics-listen",
    envvar="FAIRPOOL_METRICS_LISTEN",
    metavar="HOST:PORT",
    help="Also serve /metrics at this address without credentials, with the names of projects, users and jobs: for a "
    "Prometheus in a network of its own. Port 0 picks a free port. Default: not at all. Also: FAIRPOOL_METRICS_LISTEN.",
)
HIDE = click.option(
    "--hide",
    envvar="FAIRPOOL_HIDE",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Hide this file or directory from pods, such as the data directory of a control plane on the same machine. "
    "The data directory and the token file of the cluster are always hidden. Repeatable. Also: FAIRPOOL_HIDE, "
    "separated by colons.",
)
DETACH = click.option(
    "--detach/--foreground",
    default=False,
    help="Run in the background and return when ready, or run in this terminal until Ctrl-C (default).",
)
IN_BACKGROUND = click.option("--in-background", is_flag=True, hidden=True)
"""As `--detach` starts it: its output is not shown."""


def flags(*options: Callable[[C], C]) -> Callable[[C], C]:
    """Several flags, in this order in the help."""

    def decorate(command: C) -> C:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


# --- values ----------------------------------------------------------------------------------------------------


def data_directory_at(data: Path | None) -> DataDirectory:
    """The given data directory, or the user's default."""
    return DataDirectory((data.expanduser() if data is not None else default_data()).absolute())


@contextmanager
def failing() -> Iterator[None]:
    """A platform error ends the command with its exit code."""
    try:
        yield
    except PlatformError as error:
        fail([error.problem], exit_code_of(error.problem))


def database_location(context: click.Context, location: str) -> str:
    """The address in --database, which servers in the background get by the environment."""
    import os

    from fairpool.platform.database_location import problem_with_location

    os.environ.pop(DATABASE_VARIABLE, None)  # no pod and no program that we start has to know it
    if not location:
        return ""
    problem = problem_with_location(location)
    if problem is not None:
        fail([problem], UNUSABLE)
    if context.get_parameter_source("database") is click.core.ParameterSource.COMMANDLINE:
        warn_of_password(location, "--database")
    return location


def warn_of_password(location: str, name: str) -> None:
    """If an address that was typed contains one."""
    from fairpool.control.store.postgresql import described

    if described(location) != location:
        what = f"other users can read the password in {name}; put it into PGPASSFILE"
        other = f", or the whole address into {DATABASE_VARIABLE}" if name == "--database" else ""
        click.echo(f"warning: {what}{other}", err=True)


def address_of(text: str, default: str = DEFAULT) -> Address:
    address = read_address(text, default)
    if isinstance(address, Problem):
        fail([address], UNUSABLE)
    return address


def metrics_address(text: str | None) -> Address | None:
    return address_of(text, DEFAULT_METRICS) if text else None


def gateway_options(listen: str | None, url: str | None, public_url: str | None) -> GatewayOptions:
    """Ends the command if they cannot be used."""
    from fairpool.api.gateway_address import read_gateway_url
    from fairpool.platform.gateway_options import DEFAULT_PORT, GatewayOptions

    address = read_gateway_url(url) if url else None
    if isinstance(address, Problem):
        fail([Problem(address.code, f"--gateway-url: {address.what}", address.fix)], UNUSABLE)
    if public_url and re.fullmatch(r"https?://[^/?#@\s]+/?", public_url) is None:
        fix = "expected e.g. https://fairpool.example.com"
        fail([Problem("up.public_url", f"--public-url: {public_url!r} is not the URL of a host", fix)], UNUSABLE)
    options = GatewayOptions(
        listen=address_of(listen, f"127.0.0.1:{DEFAULT_PORT}") if listen else None,
        url=address,
        control_url=(public_url or "").rstrip("/"),
    )
    problem = options.problem()
    if problem is not None:
        fail([problem], UNUSABLE)
    return options


def check_host_names(names: Sequence[str]) -> None:
    """End the command if a name is not valid."""
    wrong = [each for each in names if HOST_NAME.fullmatch(each) is None]
    fix = "pass only the name, without http:// and port, e.g. fairpool.example.com"
    if wrong:
        fail(
            [Problem("up.host_name", f"--host-name: {each!r} is not a valid host name", fix) for each in wrong],
            UNUSABLE,
        )


def trusted_proxies_of(texts: Sequence[str]) -> TrustedProxies:
    """Ends the command if one is no network."""
    from fairpool.control.trusted_proxies import read_proxies

    found = read_proxies(texts)
    if isinstance(found, Problem):
        fail([Problem(found.code, f"--trusted-proxy: {found.what}", found.fix)], UNUSABLE)
    return found


def disk_reserve_bytes(text: str) -> int:
    from fairpool.model.typed_text import bytes_amount

    size = bytes_amount(text)
    if isinstance(size, Problem):
        fix = "expected e.g. 1GiB, 512MiB, or 0 for none"
        fail([Problem("up.disk_reserve", f"--disk-reserve: {size.what}", fix)], UNUSABLE)
    return size


def retention_of(ages: Mapping[str, str]) -> Retention:
    """How long history is kept, by flag."""
    from fairpool.control.settings import Retention
    from fairpool.model.typed_text import duration_s

    seconds, problems = {}, []
    for name, text in ages.items():
        age_s = duration_s(text)
        if isinstance(age_s, Problem):
            problems.append(Problem(age_s.code, f"{name}: {age_s.what}", age_s.fix))
        elif age_s == 0:
            what = f"{name}: must be longer than 0"
            problems.append(Problem("up.keep", what, "expected e.g. 90s, 10m, 2h or 1d"))
        else:
            seconds[name] = age_s
    if problems:
        fail(problems, UNUSABLE)
    return Retention(
        history_s=seconds["--keep-history"], audit_s=seconds["--keep-audit"], usage_s=seconds["--keep-usage"]
    )


def audit_target_of(text: str) -> str:
    """Where audit entries are forwarded to. Ends the command if it is no such place."""
    from fairpool.control.audit_targets import audit_target

    problem = audit_target(text) if text else None
    if isinstance(problem, Problem):
        fail([Problem(problem.code, f"--audit-forward: {problem.what}", problem.fix)], UNUSABLE)
    return text


def first_password_in(file: Path | None) -> str:
    """The first line of the file. Ends the command if it is no password."""
    from fairpool.api.limits import PASSWORD_MAX, PASSWORD_MIN

    if file is None:
        return ""
    name, fix = (
        "--first-password-file",
        f"the first line must be a password of {PASSWORD_MIN} to {PASSWORD_MAX} characters",
    )
    try:
        if str(file) == "-":
            line = sys.stdin.readline(PASSWORD_MAX + 2)
        else:
            with file.open(encoding="utf-8") as opened:
                line = opened.readline(PASSWORD_MAX + 2)
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not text" if isinstance(error, UnicodeDecodeError) else (error.strerror or str(error)).lower()
        fail([Problem("up.first_password", f"{name}: {file} cannot be read: {why}", fix)], UNUSABLE)
    password = line.rstrip("\r\n")
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        what = f"{name}: the password has {'more than ' * (len(password) > PASSWORD_MAX)}"
        what += f"{min(len(password), PASSWORD_MAX)} characters"
        fail([Problem("up.first_password", what, fix)], UNUSABLE)
    return password
