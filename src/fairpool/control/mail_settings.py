"""HTTP routes for the mail server that the platform sends through, and a test of it."""

from __future__ import annotations

import ssl

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import mail as wire
from fairpool.control.mail import ADDRESS, KEY, NO_SERVER, Mail, send
from fairpool.control.moments import iso
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Routes
from fairpool.control.sealing import KeyUnusable
from fairpool.control.settings import is_loopback
from fairpool.control.store import changes
from fairpool.control.store import preferences as store
from fairpool.control.store.database import Connection

routes = Routes("settings")

PATH = "/api/v1/mail/settings"
BAD_GATEWAY = 502


@routes.get(PATH, action=Action.SETTING_READ, answer=wire.MailSettings, summary="Get the mail server")
async def mail_settings(plane: Plane, caller: Caller) -> wire.MailSettings:
    caller.require(Action.SETTING_READ)
    return await plane.read(_shown)


@routes.put(PATH, action=Action.SETTING_WRITE, answer=wire.MailSettings, summary="Set the mail server")
async def set_mail_settings(request: Request, plane: Plane, caller: Caller, body: wire.MailSettingsRequest) -> Response:
    caller.require(Action.SETTING_WRITE)
    check(body)

    def unit(connection: Connection) -> ActionResult:
        stored = wire.StoredMailServer(
            host=body.host,
            port=body.port,
            security=body.security.value,
            sender=body.sender,
            username=body.username,
            sealed_password=_sealed(connection, plane, body),
            ca_certificate=body.ca_certificate,
        )
        now = plane.now()
        revision = changes.record(connection, "setting", KEY, "updated", now, declared=False, kept=_kept(plane))
        store.put(connection, KEY, stored.model_dump_json(), now, caller.name, revision)
        return ActionResult(
            body=_shown(connection),
            action="update",
            entity_type="setting",
            entity_id=KEY,
            entity_name=f"{KEY} = {body.host}:{body.port}",
        )

    return await plane.perform(request, caller, unit, pepper=_pepper(plane))


@routes.delete(PATH, action=Action.SETTING_WRITE, status=204, summary="Remove the mail server")
async def delete_mail_settings(request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require(Action.SETTING_WRITE)

    def unit(connection: Connection) -> ActionResult:
        _shown(connection)
        changes.record(connection, "setting", KEY, "deleted", plane.now(), declared=False, kept=_kept(plane))
        store.remove(connection, KEY)
        return ActionResult(action="delete", entity_type="setting", entity_id=KEY, entity_name=KEY)

    return await plane.perform(request, caller, unit)


@routes.post(
    "/api/v1/mail/test", action=Action.SETTING_WRITE, answer=wire.TestMailAnswer, summary="Send a test message"
)
async def test_mail(request: Request, plane: Plane, caller: Caller, body: wire.TestMailRequest) -> wire.TestMailAnswer:
    caller.require(Action.SETTING_WRITE)
    text = f"This message was sent by {caller.name} to test the mail settings of Fairpool at {plane.settings.issuer}.\n"
    problem = await send(plane, Mail(body.to, "Test message from Fairpool", text))
    result = "Succeeded" if problem is None else "Failed"
    done = ActionResult(action="test", entity_type="setting", entity_id=KEY, entity_name=body.to, result=result)
    await plane.note(request, caller, done)
    if problem is not None:
        status = 409 if problem.code == NO_SERVER.code else BAD_GATEWAY
        raise refused(status, problem.code, problem.what, problem.fix)
    return wire.TestMailAnswer(to=body.to)


def check(body: wire.MailSettingsRequest) -> None:
    """Refuse settings that cannot be used, with everything that is wrong."""
    wrong: list[Refused] = []
    if ADDRESS.fullmatch(body.sender) is None:
        what = f"{body.sender!r} cannot be the sender of mail"
        wrong.append(refused(422, "mail.address", what, "use letters, digits and .+-_", "from"))
    if body.security is wire.MailSecurity.NONE and body.username and not is_loopback(body.host):
        what = "the password would travel unencrypted"
        wrong.append(refused(422, "mail.insecure", what, "choose security starttls or tls", "security"))
    if body.password and not body.username:
        wrong.append(refused(422, "mail.no_user", "a password needs a user name", "set username", "username"))
    if body.ca_certificate:
        try:
            ssl.create_default_context(cadata=body.ca_certificate)
        except (ssl.SSLError, ValueError):
            what, fix = "caCertificate is not a certificate", "send it as PEM: -----BEGIN CERTIFICATE-----"
            wrong.append(refused(422, "mail.certificate", what, fix, "caCertificate"))
    if wrong:
        raise Refused(422, [each for refusal in wrong for each in refusal.problems])


def _sealed(connection: Connection, plane: Plane, body: wire.MailSettingsRequest) -> str:
    """The password, encrypted; without one, that of before if user and host are the same."""
    if not body.username or body.password == "":
        return ""
    if body.password is None:
        row = store.one(connection, KEY)
        before = wire.StoredMailServer.model_validate_json(row.value) if row is not None else None
        is_same = before is not None and (before.host, before.username) == (body.host, body.username)
        return before.sealed_password if before is not None and is_same else ""
    try:
        return plane.key_file.key().seal({"password": body.password.encode()}, KEY)
    except KeyUnusable as error:
        raise refused(503, error.problem.code, error.problem.what, error.problem.fix) from error


def _pepper(plane: Plane) -> bytes:
    try:
        key = plane.key_file.existing()
    except KeyUnusable:
        return b""
    return key.content if key is not None else b""


def _kept(plane: Plane) -> int:
    return plane.settings.changes_kept


def _shown(connection: Connection) -> wire.MailSettings:
    row = store.one(connection, KEY)
    if row is None:
        raise refused(404, NO_SERVER.code, NO_SERVER.what, NO_SERVER.fix)
    stored = wire.StoredMailServer.model_validate_json(row.value)
    return wire.MailSettings(
        host=stored.host,
        port=stored.port,
        security=wire.MailSecurity(stored.security),
        sender=stored.sender,
        username=stored.username,
        has_password=bool(stored.sealed_password),
        ca_certificate=stored.ca_certificate,
        updated_at=iso(row.updated_at),
        updated_by=row.updated_by,
    )
