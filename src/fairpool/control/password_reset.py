"""HTTP routes for forgotten passwords: a link by mail that works once, for a while.

The answer is the same whether the address has an account or not, and comes before the mail is sent. Both cost the same
writes. Asking is limited by address and by name; what is asked for is in the audit log.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import uuid

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import access as wire
from fairpool.api.access import normal_email
from fairpool.control import preferences
from fairpool.control.attempts import names_of
from fairpool.control.guard import digest_of
from fairpool.control.mail import Mail, configured, send
from fairpool.control.passwords import NO_PASSWORD, Passwords
from fairpool.control.plane import ActionResult, Caller, Plane, entry
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Routes
from fairpool.control.sign_in_attempt import recalled, save_counts
from fairpool.control.store import access as store
from fairpool.control.store import audit as audit_store
from fairpool.control.store.database import Connection
from fairpool.control.tokens import address_of
from fairpool.model.ids import SECOND_MS
from fairpool.model.problem import Problem

log = logging.getLogger("fairpool.control")

routes = Routes("access")

LINK = "reset"
"""Kind of the token in a link."""
NO_USER = "unknown"
"""In place of a user's id: the row is written for its cost alone."""
TEXT = """Hello,

a new password was asked for the account {email} at {issuer}.
To choose one, open this link within {minutes} minutes. It works once.

{link}

If you did not ask for it, you can ignore this message: nothing has changed.
"""
WELCOME = """Hello,

an account was created for you at {issuer}. Your user name is {email}.
To choose your password, open this link within {minutes} minutes. It works once.

{link}

Later, ask for another link at {issuer}/forgot-password.
"""


@routes.post(
    "/api/v1/password/forgot",
    action=Action.OPEN,
    status=202,
    answer=wire.ForgottenAnswer,
    summary="Ask for a link that sets a new password",
)
async def forgotten(request: Request, plane: Plane, body: wire.ForgottenRequest) -> wire.ForgottenAnswer:
    await send_link(request, plane, body.email)
    return wire.ForgottenAnswer()


@routes.post(
    "/api/v1/password/reset", action=Action.OPEN, status=204, summary="Set a new password with the code of a link"
)
async def reset(request: Request, plane: Plane, body: wire.ResetRequest) -> Response:
    await set_password(request, plane, body.code, body.new_password)
    return Response(None, 204)


async def send_link(request: Request, plane: Plane, email: str) -> None:
    """Mail a link to the user with this address, if there is one."""
    await plane.read(lambda connection: check_mail(connection, plane, "ask an administrator for a new password"))
    await _check_rate(request, plane, email)
    code, minutes, user = await plane.write(lambda connection: _new_link(connection, request, plane, email))
    if user is None:
        return
    begin_sending(request, plane, _mail(plane, user, "Choose a new password", TEXT, code, minutes))


def check_mail(connection: Connection, plane: Plane, fix: str) -> None:
    """Refuse what needs a mail where none can be sent."""
    server = configured(connection, plane)
    if isinstance(server, Problem):
        raise refused(409, server.code, server.what, fix)


def welcome(connection: Connection, plane: Plane, user: store.UserRow) -> Mail:
    """For a new user: a mail with a link that sets the password. The caller sends it when the user is there."""
    minutes = _link_minutes(connection, plane)
    code = new_link_code(connection, plane, user.id, minutes * 60)
    return _mail(plane, user, "Choose your password", WELCOME, code, minutes)


def _mail(plane: Plane, user: store.UserRow, subject: str, text: str, code: str, minutes: int) -> Mail:
    issuer = plane.settings.issuer
    link = f"{issuer}/reset-password?code={code}"
    return Mail(user.email, subject, text.format(email=user.email, issuer=issuer, minutes=minutes, link=link))


def _link_minutes(connection: Connection, plane: Plane) -> int:
    return preferences.current_value(plane.settings, connection, preferences.PASSWORD_LINK)


def begin_sending(request: Request, plane: Plane, mail: Mail) -> None:
    """Send it after the answer: how long that takes must not tell whether there is an account."""

    async def sending() -> None:
        problem = await send(plane, mail)
        if problem is not None:
            log.warning("mail not sent: %s", problem.what, extra={"fields": {"code": problem.code}})

    task = asyncio.create_task(sending(), name="mail")
    request.app.state.mails.add(task)
    task.add_done_callback(request.app.state.mails.discard)


async def _check_rate(request: Request, plane: Plane, email: str) -> None:
    names = names_of("mail", normal_email(email), address_of(request))
    names = {f"mail {name}": limit for name, limit in names.items()}  # apart from those of sign-ins

    def unit(connection: Connection) -> int:
        attempts = recalled(connection, names)
        wait_s = attempts.begin(names, plane.now())
        if not wait_s:
            save_counts(connection, names, attempts)
        return wait_s

    wait_s = await plane.write(unit)
    if wait_s:
        what = f"too many requests for a new password: the next one is accepted in {wait_s} s"
        refusal = refused(429, "access.too_many_attempts", what, "wait, then try again")
        refusal.headers["Retry-After"] = str(wait_s)
        raise refusal


def new_link_code(connection: Connection, plane: Plane, user_id: str, lifetime_s: int) -> str:
    """The code of a link that sets the password of this user."""
    code, now = "fpm_" + secrets.token_urlsafe(32), plane.now()
    store.add_token(
        connection,
        digest_of(code),
        family=str(uuid.uuid4()),
        kind=LINK,
        subject_id=user_id,
        subject_type="user",
        now=now,
        expires_at=now + lifetime_s * SECOND_MS,
    )
    return code


def _new_link(
    connection: Connection, request: Request, plane: Plane, email: str
) -> tuple[str, int, store.UserRow | None]:
    user = store.user_by_email(connection, email)
    has_password = user is not None and not user.disabled and user.password_hash != NO_PASSWORD
    minutes = _link_minutes(connection, plane)
    code = new_link_code(connection, plane, user.id if user is not None and has_password else NO_USER, minutes * 60)
    audit_store.add(connection, _line(request, plane, user.id if user is not None else "", email, "forgot-password"))
    return code, minutes, user if has_password else None


async def set_password(request: Request, plane: Plane, code: str, password: str) -> None:
    """Set the password that a link is for, once. All sessions of the user end."""
    digest = digest_of(code)

    def check(connection: Connection) -> store.UserRow:
        user = _user_of(connection, plane, digest)
        preferences.check_password(plane.settings, connection, password, "newPassword", user.email)
        return user

    user = await plane.read(check)
    passwords: Passwords = request.app.state.passwords
    hashed = await passwords.hash(password)

    def unit(connection: Connection) -> None:
        now_is = _user_of(connection, plane, digest)  # the link may have been used meanwhile
        store.set_password(connection, now_is.id, hashed, must_change=False)
        store.revoke_subject(connection, now_is.id)
        audit_store.add(connection, _line(request, plane, user.id, user.email, "reset-password"))

    await plane.write(unit)


def check_code(connection: Connection, plane: Plane, code: str) -> None:
    """Refuse a link that is not valid."""
    _user_of(connection, plane, digest_of(code))


def _user_of(connection: Connection, plane: Plane, digest: str) -> store.UserRow:
    row = store.token(connection, digest)
    is_valid = row is not None and row.kind == LINK and (row.expires_at or 0) > plane.now()
    user = store.user(connection, row.subject_id) if row is not None and is_valid else None
    if user is None or user.disabled:
        raise link_not_valid()
    return user


def link_not_valid() -> Refused:
    what = "this link is not valid: it was used already, or its time is over"
    return refused(403, "access.link_not_valid", what, "ask for another one")


def _line(request: Request, plane: Plane, user_id: str, email: str, action: str) -> dict[str, object]:
    done = ActionResult(action=action, entity_type="user", entity_id=user_id, entity_name=email)
    return entry(request, Caller(id=user_id, name=email, kind="user"), done, plane.now())
