"""A real SMTP server for tests: plain, STARTTLS or TLS, with or without a password, on a free loopback port."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP as Protocol
from aiosmtpd.smtp import AuthResult, Envelope, Session

USER, PASSWORD = "fairpool", "of the mail server"


@dataclass
class Mailbox:
    """What has arrived."""

    host: str = ""
    port: int = 0
    certificate: str = ""
    messages: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:  # aiosmtpd's name
        assert isinstance(envelope.content, bytes)
        self.messages.append(message_from_bytes(envelope.content, policy=policy.default))
        self.recipients.append(list(envelope.rcpt_tos))
        return "250 OK"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        self.logins.append(data.login.decode())
        return AuthResult(success=(data.login.decode(), data.password.decode()) == (USER, PASSWORD), handled=False)


@contextmanager
def smtp_server(folder: Path, security: str = "none", *, with_login: bool = False) -> Iterator[Mailbox]:
    """A server until the end of the block."""
    box = Mailbox()
    context = None
    if security != "none":
        box.certificate, context = _certificate(folder)
    options: dict[str, Any] = {"authenticator": box.authenticate, "auth_required": True} if with_login else {}
    if with_login and security != "starttls":
        options["auth_require_tls"] = False

    loop = asyncio.new_event_loop()

    def protocol() -> Protocol:
        return Protocol(box, tls_context=context if security == "starttls" else None, loop=loop, **options)

    thread = threading.Thread(target=loop.run_forever, name="smtp", daemon=True)
    thread.start()
    starting = loop.create_server(protocol, "127.0.0.1", 0, ssl=context if security == "tls" else None)
    server = asyncio.run_coroutine_threadsafe(starting, loop).result()
    try:
        box.host, box.port = server.sockets[0].getsockname()
        yield box
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _certificate(folder: Path) -> tuple[str, ssl.SSLContext]:
    certificate, key = folder / "smtp.pem", folder / "smtp.key"
    command = (
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    )
    names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
    subprocess.run([*command, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate.read_text(), context
