"""`runai kubeconfig`: use `kubectl` as the signed-in user, where the API server accepts tokens of the control plane.

The file is that of `KUBECONFIG`, or `~/.kube/config`. It gets a user `runai-authenticated-user` and a context `runai`;
what else is in it stays. The token is not in the file: `kubectl` asks `runai kubeconfig token` for it each time. It is
an ID token for the API server of one cluster, with which nothing can be done elsewhere.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import click

from fairpool.api.client import Client
from fairpool.cli.failure import failure
from fairpool.cli.runai.flags import GlobalOptions, command, flag
from fairpool.cli.runai.session import Session
from fairpool.cli.screen import printable

USER, CONTEXT = "runai-authenticated-user", "runai"
API_VERSION = "client.authentication.k8s.io/v1"
NAMESPACE_PREFIX = "runai-"
Config = dict[str, Any]

cluster_flag = flag(
    "--cluster",
    metavar="NAME",
    help="The cluster of the API server (default: the one set with `runai config cluster`, otherwise the only one).",
)


@command("set", "runai kubeconfig set --api-server https://10.0.0.7:6443 --ca-file ca.crt", with_project=False)
@flag("--api-server", metavar="URL", default="", help="The API server. Default: that of the current context.")
@flag(
    "--ca-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Certificate of the authority that signed the API server's certificate: a PEM file.",
)
@cluster_flag
@click.pass_obj
def set_kubeconfig(options: GlobalOptions, api_server: str, ca_file: Path | None, cluster: str | None) -> None:
    """Make kubectl use your login: adds the user runai-authenticated-user and the context runai to your kubeconfig.

    The API server must accept tokens of this server: see the page Settings for its flags.
    """
    session, file = Session(options), kubeconfig_file()
    content = _read(file)
    entry = _cluster(content, api_server, ca_file, file)
    with session.logged_in() as client:
        made = client.kubernetes_token(_cluster_name(session, client, cluster))
    if api_server:
        _put(content, "clusters", CONTEXT, "cluster", entry)
    name = CONTEXT if api_server else _current(content)["cluster"]
    _put(content, "users", USER, "user", {"exec": _plugin(session, made.audience.rpartition(":")[2])})
    namespace = {"namespace": f"{NAMESPACE_PREFIX}{project}"} if (project := session.default_project) else {}
    _put(content, "contexts", CONTEXT, "context", {"cluster": name, "user": USER, **namespace})
    content["current-context"] = CONTEXT
    _write(file, content)
    click.echo(f"kubectl uses your login now: context {CONTEXT} of {printable(str(file))}.")


@command("token", "runai kubeconfig token", with_project=False)
@cluster_flag
@click.pass_obj
def kubeconfig_token(options: GlobalOptions, cluster: str | None) -> None:
    """Print the credential that kubectl asks for. It is called by kubectl, not by you.

    It is valid for the API server of one cluster, for ten minutes.
    """
    session = Session(options)
    with session.logged_in() as client:
        made = client.kubernetes_token(_cluster_name(session, client, cluster))
    status: Config = {"token": made.token, "expirationTimestamp": made.expires_at}
    click.echo(json.dumps({"apiVersion": API_VERSION, "kind": "ExecCredential", "status": status}))


def kubeconfig_file() -> Path:
    """The first file of `KUBECONFIG`, which kubectl changes too, or the usual one."""
    named = [each for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return Path(named[0]).expanduser() if named else Path.home() / ".kube" / "config"


def _cluster_name(session: Session, client: Client, asked: str | None) -> str:
    """Its name or id."""
    if wanted := asked or session.default("cluster"):
        return wanted
    names = sorted(each.name for each in client.clusters())
    if len(names) == 1:
        return names[0]
    fix = f"name one with --cluster: {', '.join(map(printable, names))}"
    if not names:
        fix = "an administrator adds one: runai-adm cluster create NAME"
    raise failure("kubeconfig.cluster", "there are several clusters" if names else "there is no cluster", fix)


def _plugin(session: Session, cluster_id: str) -> Config:
    words = ["kubeconfig", "token", "--cluster", cluster_id, "--server", session.server]
    folder = session.options.config
    return {
        "apiVersion": API_VERSION,
        "command": "runai",
        "args": [*words, "--config-path", str(Path(folder).absolute())] if folder else words,
        "interactiveMode": "Never",
        "installHint": "runai is not on the path: install it, or see the page Command line of the web UI",
    }


def _cluster(content: Config, api_server: str, ca_file: Path | None, file: Path) -> Config:
    """The entry of the API server; raises a failure if it is neither given nor known."""
    if not api_server:
        if ca_file is not None:
            raise failure("kubeconfig.ca", "--ca-file has no effect without --api-server", "add --api-server URL")
        if not _current(content).get("cluster"):
            what = f"{printable(str(file))} names no API server"
            raise failure("kubeconfig.server", what, "pass --api-server https://HOST:6443, or set KUBECONFIG")
        return {}
    if not api_server.startswith("https://"):
        what = f"--api-server: {printable(api_server)} is not an address of an API server"
        raise failure("kubeconfig.server", what, "expected e.g. https://10.0.0.7:6443")
    return {"server": api_server, **({"certificate-authority": str(ca_file.absolute())} if ca_file else {})}


def _current(content: Config) -> Config:
    found = [each for each in content.get("contexts") or () if each.get("name") == content.get("current-context")]
    return dict(found[0].get("context") or {}) if found else {}


def _put(content: Config, group: str, name: str, noun: str, value: Config) -> None:
    others = [each for each in content.get(group) or () if each.get("name") != name]
    content[group] = [*others, {"name": name, noun: value}]


def _read(file: Path) -> Config:
    import yaml

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        return {"apiVersion": "v1", "kind": "Config"}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise failure(
            "kubeconfig.unreadable", f"{printable(str(file))} cannot be read: {printable(str(error))}"
        ) from error
    if not isinstance(content, dict):
        raise failure("kubeconfig.unreadable", f"{printable(str(file))} is not a kubeconfig")
    return content


def _write(file: Path, content: Config) -> None:
    """As a whole, readable by its owner alone: files of other users often contain keys."""
    import yaml

    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as written:
            yaml.safe_dump(content, written, sort_keys=False)
        Path(written.name).replace(file)
    except OSError as error:
        what = f"{printable(str(file))} cannot be written: {(error.strerror or str(error)).lower()}"
        raise failure("kubeconfig.unwritable", what, "use a copy of your own: set KUBECONFIG to its path") from error
