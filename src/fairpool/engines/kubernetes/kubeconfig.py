"""kubeconfig: which API server to use and how to authenticate there, by the files that kubectl reads.

`KUBECONFIG` may name several files; the first that sets a value wins. Not supported, and refused by name: proxies,
basic authentication, and the auth providers that Kubernetes has removed. `exec_plugin.py` runs programs that a file
names.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import yaml

from fairpool.engines.kubernetes.credentials import (
    ApiServer,
    Credentials,
    HeaderFields,
    Identification,
    Source,
    in_cluster,
    read_file,
    read_token,
)
from fairpool.engines.kubernetes.exec_plugin import ExecPlugin, PluginCluster, PluginSettings
from fairpool.engines.kubernetes.failures import BadConfiguration

FILE_BYTES = 8 << 20
DEPTH = 50
PEM = b"-----BEGIN"


class ClusterEntry(msgspec.Struct, rename="kebab", omit_defaults=True):
    """`cluster` of an entry of `clusters`."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class UserEntry(msgspec.Struct, rename="kebab"):
    """`user` of an entry of `users`."""

    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: PluginSettings | None = None
    username: str = ""
    auth_provider: Any = None
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(default=None, name="as-user-extra")


class ContextEntry(msgspec.Struct, rename="kebab"):
    """`context` of an entry of `contexts`."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(msgspec.Struct):
    """An entry of `clusters`."""

    name: str
    cluster: ClusterEntry | None = None


class NamedUser(msgspec.Struct):
    """An entry of `users`."""

    name: str
    user: UserEntry | None = None


class NamedContext(msgspec.Struct):
    """An entry of `contexts`."""

    name: str
    context: ContextEntry | None = None


class KubeconfigFile(msgspec.Struct, rename="kebab"):
    """One file."""

    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None
    current_context: str | None = None


def find_api_server(kubeconfig: str = "", context: str = "") -> ApiServer:
    """The API server by the given file, `KUBECONFIG`, `~/.kube/config`, or the service account of this pod.

    `kubeconfig` and `KUBECONFIG` are paths, several of them separated by ":".
    """
    named = kubeconfig or os.environ.get("KUBECONFIG", "")
    if named:
        paths = [Path(each).expanduser() for each in named.split(os.pathsep) if each]
        present = [each for each in paths if each.exists()]
        if not present:
            setting = "the kubeconfig" if kubeconfig else "KUBECONFIG"
            raise BadConfiguration(f"{setting} names no file that exists: {named}")
        return read_kubeconfig(present, context)
    default = Path.home() / ".kube" / "config"
    if default.exists():
        return read_kubeconfig([default], context)
    server = in_cluster()
    if server is None:
        raise BadConfiguration(
            "no Kubernetes API server is configured: set KUBECONFIG, create ~/.kube/config, or run as a pod"
        )
    return server


def read_kubeconfig(paths: Sequence[Path], context: str = "") -> ApiServer:
    """The API server of a context, by default the current one, of files that are merged."""
    files = [(path, _parsed(path)) for path in paths]
    where = ", ".join(str(path) for path in paths)
    chosen = context or next((file.current_context for _, file in files if file.current_context), "")
    if not chosen:
        raise BadConfiguration(f"{where}: no context is chosen (current-context)")
    contexts = [(path, each.name, each.context) for path, file in files for each in file.contexts or ()]
    _, entry = _named(contexts, chosen, "context", where)
    clusters = [(path, each.name, each.cluster) for path, file in files for each in file.clusters or ()]
    cluster_path, cluster = _named(clusters, entry.cluster, "cluster", where)
    users = [(path, each.name, each.user or UserEntry()) for path, file in files for each in file.users or ()]
    user_path, user = _named(users, entry.user, "user", where) if entry.user else (cluster_path, UserEntry())
    _check(cluster, f"{cluster_path}: cluster {entry.cluster!r}")
    _check_user(user, f"{user_path}: user {entry.user!r}")
    return ApiServer(
        cluster.server,
        Credentials(_source(cluster_path, cluster, user_path, user), insecure=cluster.insecure_skip_tls_verify),
        namespace=entry.namespace or "default",
        tls_server_name=cluster.tls_server_name,
    )


# --- reading files ---------------------------------------------------------------------------------------------------


def _parsed(path: Path) -> KubeconfigFile:
    content = read_file(path)
    if len(content) > FILE_BYTES:
        raise BadConfiguration(f"{path}: is larger than {FILE_BYTES >> 20} MiB")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_shape(path, yaml.parse(content, loader))
        values = yaml.load(content, loader)
    except (yaml.YAMLError, ValueError) as error:
        raise BadConfiguration(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from None
    try:
        return msgspec.convert({} if values is None else values, KubeconfigFile)
    except msgspec.ValidationError as error:
        raise BadConfiguration(f"{path}: is not a kubeconfig: {error}") from None


def _check_shape(path: Path, events: Iterable[object]) -> None:
    """Refuse what takes a parser for ever: an alias can stand for any amount of content, and so can nesting."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise BadConfiguration(f"{path}: aliases of YAML (*name) are not supported")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH:
            raise BadConfiguration(f"{path}: is nested more than {DEPTH} levels deep")


Entry = TypeVar("Entry")


def _named(entries: Iterable[tuple[Path, str, Entry | None]], name: str, what: str, where: str) -> tuple[Path, Entry]:
    """The first entry of that name, and the file it is in."""
    known = []
    for path, each, entry in entries:
        if each == name and entry is not None:
            return path, entry
        known.append(each)
    raise BadConfiguration(f"{where}: there is no {what} {name!r}; there are: {', '.join(known) or 'none'}")


def _check(cluster: ClusterEntry, where: str) -> None:
    try:
        address = urlsplit(cluster.server)
        valid = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise BadConfiguration(
            f"{where}: the server is not an address: {cluster.server!r} (expected https://host:port)"
        )
    if cluster.proxy_url:
        raise BadConfiguration(f"{where}: proxy-url is not supported")
    if cluster.insecure_skip_tls_verify and (cluster.certificate_authority or cluster.certificate_authority_data):
        raise BadConfiguration(f"{where}: insecure-skip-tls-verify cannot be combined with a certificate-authority")


def _check_user(user: UserEntry, where: str) -> None:
    if user.auth_provider is not None:
        raise BadConfiguration(f"{where}: auth-provider is not supported; Kubernetes 1.26 removed it, use exec")
    if user.username:
        raise BadConfiguration(f"{where}: username and password are not supported; Kubernetes 1.19 removed them")


# --- what a user shows -----------------------------------------------------------------------------------------------


def _source(cluster_path: Path, cluster: ClusterEntry, user_path: Path, user: UserEntry) -> Source:
    authority = _content(
        cluster_path, "certificate-authority", cluster.certificate_authority, cluster.certificate_authority_data
    )
    certificate = _content(user_path, "client-certificate", user.client_certificate, user.client_certificate_data)
    key = _content(user_path, "client-key", user.client_key, user.client_key_data)
    plugin = _plugin(cluster, authority, user_path, user.exec)
    headers = _impersonation(user)

    def read(was_rejected: bool) -> Identification:
        given = plugin.credential(was_rejected) if plugin is not None else None
        token = read_token(user_path.parent / user.token_file) if user.token_file else user.token
        return Identification(
            token=token or (given.token if given else ""),
            headers=headers,
            authority=authority(),
            certificate=certificate() or (given.certificate if given else b""),
            key=key() or (given.key if given else b""),
        )

    return read


def _content(path: Path, setting: str, file: str, data: str) -> Callable[[], bytes]:
    """PEM that is in the kubeconfig itself or in a file, which is read each time."""
    if data:
        try:
            decoded = base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            raise BadConfiguration(f"{path}: {setting}-data is not base64") from None
        if PEM not in decoded:
            raise BadConfiguration(f"{path}: {setting}-data is not in the PEM format")
        return lambda: decoded
    if file:
        return lambda: read_file(path.parent / file)
    return lambda: b""


def _plugin(
    cluster: ClusterEntry, authority: Callable[[], bytes], path: Path, settings: PluginSettings | None
) -> ExecPlugin | None:
    if settings is None:
        return None
    described = PluginCluster(
        server=cluster.server,
        tls_server_name=cluster.tls_server_name,
        insecure_skip_tls_verify=cluster.insecure_skip_tls_verify,
        certificate_authority_data=base64.b64encode(authority()).decode(),
    )
    return ExecPlugin(settings, path, described)


def _impersonation(user: UserEntry) -> HeaderFields:
    fields = []
    if user.impersonate:
        fields.append(("Impersonate-User", user.impersonate))
    if user.impersonate_uid:
        fields.append(("Impersonate-Uid", user.impersonate_uid))
    fields += [("Impersonate-Group", group) for group in user.impersonate_groups or ()]
    for name, values in (user.impersonate_extra or {}).items():
        fields += [(f"Impersonate-Extra-{quote(name, safe='')}", value) for value in values]
    return tuple(fields)
