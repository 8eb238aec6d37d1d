"""How this program authenticates to the API server: tokens, certificates, and the service account of a pod.

Credentials are asked for before each request and read again every few seconds, so a token or certificate that was
replaced on disk is used without a restart.
"""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fairpool.engines.kubernetes.failures import BadConfiguration

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REREAD_S = 10.0
"""The kubelet renews a token minutes before the old one expires."""

HeaderFields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Identification:
    """A token or a client certificate, and the authorities to trust; what is in PEM may be empty."""

    token: str = ""
    headers: HeaderFields = ()
    """Besides the token: impersonation."""
    authority: bytes = b""
    """Certificates that the server's is checked with; empty: those of the system."""
    certificate: bytes = b""
    key: bytes = b""


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """What the next request is sent with."""

    headers: HeaderFields
    tls: ssl.SSLContext


Source = Callable[[bool], Identification]
"""Reads the identification; may take time, and raises `BadConfiguration`. True: what it last returned was rejected."""


class Credentials:
    """The current `Access`, from a source that is asked again and again. For any number of threads."""

    def __init__(self, source: Source, *, insecure: bool = False) -> None:
        """`insecure`: do not check the server's certificate."""
        self._source, self._insecure = source, insecure
        self._identification: Identification | None = None
        self._access: Access | None = None
        self._read_at = 0.0
        self._is_rejected = False
        self._lock = threading.Lock()

    def current(self) -> Access | None:
        """What to show now: the same object as long as nothing has changed; None if it has to be read (again)."""
        is_fresh = not self._is_rejected and time.monotonic() - self._read_at < REREAD_S
        return self._access if is_fresh else None

    def read(self) -> Access:
        """What to show now, read if need be. May take as long as a program that a kubeconfig names."""
        with self._lock:
            return self.current() or self._read()

    def rejected(self, access: Access) -> None:
        """The API server answered 401 to this. Does not wait for a `read` in progress."""
        if access is self._access:
            self._is_rejected = True

    def _read(self) -> Access:
        try:
            identification = self._source(self._is_rejected)
        except BadConfiguration:
            if self._access is None or self._is_rejected:
                raise
            self._read_at = time.monotonic()  # a file is just being replaced; the old token is valid for a while
            return self._access
        if self._access is None or identification != self._identification:
            self._access, self._identification = _access(identification, self._insecure), identification
        self._read_at, self._is_rejected = time.monotonic(), False
        return self._access


def _access(identification: Identification, insecure: bool) -> Access:
    token = identification.token
    bearer: HeaderFields = (("Authorization", f"Bearer {token}"),) if token else ()
    return Access(bearer + identification.headers, _tls(identification, insecure))


def _tls(identification: Identification, insecure: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=identification.authority.decode("ascii") or None)
    except (ssl.SSLError, ValueError) as error:
        raise BadConfiguration(
            f"the certificate of the authority (certificate-authority) is not valid: {error}"
        ) from None
    # Python 3.13 turned this on; it refuses the authorities that many installers of Kubernetes make.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identification.certificate:
        _load_certificate(context, identification)
    return context


def _load_certificate(context: ssl.SSLContext, identification: Identification) -> None:
    """The library reads certificates from files only."""
    with TemporaryDirectory(prefix="fairpool-") as folder:  # for this user alone
        path = Path(folder) / "client.pem"
        path.touch(0o600)
        path.write_bytes(identification.certificate + b"\n" + identification.key)
        try:
            context.load_cert_chain(path, password="")  # without one it would ask at the terminal
        except (ssl.SSLError, OSError) as error:
            raise BadConfiguration(f"the client certificate or its key is not valid: {error}") from None


# --- the API server -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ApiServer:
    """An API server and how to authenticate there."""

    url: str
    credentials: Credentials
    namespace: str = "default"
    """Of the kubeconfig's context, or of this pod."""
    tls_server_name: str = ""
    """The name in the server's certificate, if it is not the host of the URL."""


def in_cluster(folder: Path = SERVICE_ACCOUNT) -> ApiServer | None:
    """The API server of the cluster in which this program runs as a pod; None outside a cluster."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (folder / "token").exists():
        return None
    address = f"[{host}]" if ":" in host else host
    namespace = folder / "namespace"
    return ApiServer(
        f"https://{address}:{port}",
        Credentials(lambda _rejected: _service_account(folder)),
        namespace=read_file(namespace).decode().strip() if namespace.exists() else "default",
    )


def _service_account(folder: Path) -> Identification:
    return Identification(token=read_token(folder / "token"), authority=read_file(folder / "ca.crt"))


def read_token(path: Path) -> str:
    try:
        token = read_file(path).decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable():
        raise BadConfiguration(f"{path}: does not contain a token")
    return token


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadConfiguration(f"{path}: cannot be read: {error.strerror or error}") from None
