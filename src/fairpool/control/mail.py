"""Mail: the one way out to an SMTP server. `send` delivers one message now, or says why it could not.

There is no queue here: what must arrive is tried again by its sender. The server is configured by an administrator
(`mail_settings.py`). The only module that knows smtplib.
"""

from __future__ import annotations

import asyncio
import re
import smtplib
import ssl
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, make_msgid

from fairpool.control.plane import Plane
from fairpool.control.sealing import KeyUnusable
from fairpool.control.store import preferences as store
from fairpool.control.store.database import Connection
from fairpool.model.problem import Problem

KEY = "mail.server"
"""Under which the settings are stored; the password in them is sealed for this name."""
TIMEOUT_S = 15.0
SUBJECT_MAX = 200
TEXT_MAX = 1 << 20
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
NO_SERVER = Problem(
    "mail.not_configured",
    "no mail server is configured",
    "an administrator sets one with `runai-adm mail update --host HOST --from ADDRESS`",
)


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to one recipient, in plain text."""

    to: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """Where mail is delivered to, and as whom."""

    host: str
    port: int
    security: str
    """starttls, tls or none."""
    sender: str
    username: str = ""
    password: str = field(default="", repr=False)
    ca_certificate: str = ""
    """PEM, of a private authority; empty: those of this machine."""


async def send(plane: Plane, message: Mail) -> Problem | None:
    """Deliver a message now; None: the mail server has taken it."""
    server = await plane.read(lambda connection: configured(connection, plane))
    if isinstance(server, Problem):
        return server
    return await asyncio.to_thread(deliver, server, message)


def configured(connection: Connection, plane: Plane) -> MailServer | Problem:
    """The mail server, with its password; a problem if there is none."""
    row = store.one(connection, KEY)
    if row is None:
        return NO_SERVER
    from fairpool.api.mail import StoredMailServer  # of use to few

    stored = StoredMailServer.model_validate_json(row.value)
    password = ""
    if stored.sealed_password:
        try:
            key = plane.key_file.existing()
        except KeyUnusable as error:
            return error.problem
        values = key.unseal(stored.sealed_password, KEY) if key is not None else None
        if values is None:
            what = "the password of the mail server cannot be read: it was encrypted with another key"
            return Problem("mail.password", what, "set it again with `runai-adm mail update --password-file FILE`")
        password = values["password"].decode()
    return MailServer(
        host=stored.host,
        port=stored.port,
        security=stored.security,
        sender=stored.sender,
        username=stored.username,
        password=password,
        ca_certificate=stored.ca_certificate,
    )


def deliver(server: MailServer, message: Mail) -> Problem | None:
    """The same in the calling thread."""
    composed = compose(server.sender, message)
    if isinstance(composed, Problem):
        return composed
    place = f"{server.host}:{server.port}"
    try:
        with _connection(server) as smtp:
            if server.username:
                smtp.login(server.username, server.password)
            smtp.send_message(composed, server.sender, [message.to])
    except smtplib.SMTPAuthenticationError:
        what = f"{place} refused the user name or password of the mail settings"
        return Problem("mail.login", what, "correct it with `runai-adm mail update`")
    except smtplib.SMTPRecipientsRefused:
        return Problem("mail.recipient", f"{place} does not accept mail for {message.to}", "check the address")
    except smtplib.SMTPNotSupportedError as error:
        what = f"{place} does not support what the mail settings ask for: {_words(error)}"
        return Problem("mail.unsupported", what, "choose another --security, or send without a user name")
    except smtplib.SMTPResponseException as error:
        said = error.smtp_error.decode(errors="replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
        return Problem("mail.refused", f"{place} answered {error.smtp_code} {_plain(said)}", "ask its administrator")
    except ssl.SSLError as error:
        what = f"{place} cannot be trusted or speaks no TLS: {_words(error)}"
        return Problem("mail.tls", what, "check --security, and --ca-file if its authority is private")
    except (OSError, smtplib.SMTPException) as error:
        return Problem("mail.unreachable", f"{place} cannot be reached: {_words(error)}", "check host and port")
    return None


def _connection(server: MailServer) -> smtplib.SMTP:
    context = ssl.create_default_context(cadata=server.ca_certificate or None)
    if server.security == "tls":
        return smtplib.SMTP_SSL(server.host, server.port, timeout=TIMEOUT_S, context=context)
    smtp = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_S)
    if server.security == "starttls":
        try:
            smtp.starttls(context=context)
        except BaseException:
            smtp.close()
            raise
    return smtp


def compose(sender: str, message: Mail) -> EmailMessage | Problem:
    """The mail as it is sent. What could become another header or another recipient is refused."""
    for address in (sender, message.to):
        if ADDRESS.fullmatch(address) is None:
            return Problem("mail.address", f"{address[:128]!r} is not a valid mail address", "use e.g. ann@example.com")
    if not message.subject.isprintable() or len(message.subject) > SUBJECT_MAX:
        what = f"the subject has line breaks or more than {SUBJECT_MAX} characters"
        return Problem("mail.subject", what, "use one short line")
    mail = EmailMessage(policy=SMTP)
    mail["From"] = Address(addr_spec=sender)
    mail["To"] = Address(addr_spec=message.to)
    mail["Subject"] = message.subject
    mail["Date"] = formatdate()
    mail["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2])
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text[:TEXT_MAX])
    return mail


def _words(error: Exception) -> str:
    return _plain(str(getattr(error, "strerror", None) or getattr(error, "reason", None) or error))


def _plain(text: object) -> str:
    return "".join(each if each.isprintable() else " " for each in str(text))[:200].strip()
