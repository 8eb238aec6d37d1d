"""Codes that sign a command in: made in a browser by a signed-in person, redeemed once by the command.

Tickets with hashes of the codes are in the database, so that each control plane of several can redeem them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from dataclasses import dataclass
from typing import Any, Final

from fairpool.control.guard import digest_of
from fairpool.control.plane import Caller
from fairpool.control.refusal import Refused, refused
from fairpool.control.store import access as access_store
from fairpool.control.store import identity_providers as provider_store
from fairpool.control.store import sessions as session_store
from fairpool.control.store import sign_in_tickets as tickets
from fairpool.control.store.database import Connection
from fairpool.control.tokens import SignInOrigin
from fairpool.model.ids import SECOND_MS, Instant

CODE, DEVICE, USER_CODE = "command", "device", "user-code"
CODE_S: Final = 300
DEVICE_S: Final = 600
INTERVAL_S: Final = 2
LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels, so that codes are no words; nothing that looks like a digit."""
WAITING_MAX: Final = 5000


@dataclass(frozen=True, slots=True)
class Redeemed:
    """Who is signed in by a code, and the family that their new tokens belong to."""

    user: access_store.UserRow
    family: str
    ends_at: int | None = None
    """When a session that began at a provider ends at the latest."""


# --- codes that a browser hands over, or a person copies -------------------------------------------------------------


def new_code(connection: Connection, caller: Caller, challenge: str, now: Instant) -> str:
    """A code for the command that knows the secret with this hash (PKCE, S256)."""
    code = "fpc_" + secrets.token_urlsafe(32)
    tickets.drop_expired(connection, now)
    ticket = {**_granted_by(connection, caller), "challenge": challenge}
    tickets.add(connection, digest_of(code), CODE, ticket, now + CODE_S * SECOND_MS)
    return code


def redeem_code(connection: Connection, now: Instant, code: str | None, verifier: str | None) -> Redeemed | Refused:
    """Who gave out this code. It works once, also if the secret is wrong."""
    if not code or not verifier:
        return refused(422, "access.incomplete", "this grant needs code and codeVerifier", "set both")
    hashed = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    ticket = tickets.take(connection, digest_of(code), CODE, now)
    if ticket is not None and hmac.compare_digest(ticket["challenge"].encode(), hashed):
        redeemed = _redeemed(connection, ticket)
        if redeemed is not None:
            return redeemed
    what = "this code is wrong, was used already, or has expired"
    return refused(400, "access.wrong_code", what, "start again with `runai login`")


# --- codes that a person types in a browser anywhere (RFC 8628) ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeviceCodes:
    """The code that the command keeps, and the one that the person types."""

    device: str
    user: str


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A sign-in that waits for a decision, as the person sees it."""

    address: str
    client: str
    """As the program calls itself."""
    begun_at: Instant


def new_device_codes(connection: Connection, origin: SignInOrigin, now: Instant) -> DeviceCodes | None:
    """None: too many are waiting."""
    tickets.drop_expired(connection, now)
    if tickets.count(connection, DEVICE) >= WAITING_MAX:
        return None
    device, word = "fpd_" + secrets.token_urlsafe(32), "".join(secrets.choice(LETTERS) for _ in range(8))
    until = now + DEVICE_S * SECOND_MS
    waiting = {"user": "", "family": "", "session": "", "is_denied": False, "asked_at": 0}
    tickets.add(connection, digest_of(device), DEVICE, waiting, until)
    named = {"device": digest_of(device), "from": origin.address, "client": origin.client, "begun_at": now}
    tickets.add(connection, digest_of(word), USER_CODE, named, until)
    return DeviceCodes(device, f"{word[:4]}-{word[4:]}")


def device_request(connection: Connection, code: str, now: Instant) -> DeviceRequest | None:
    """Which command waits with this code. None: no such code."""
    named = tickets.peek(connection, _user_code_digest(code), USER_CODE, now)
    return DeviceRequest(named["from"], named["client"], Instant(named["begun_at"])) if named is not None else None


def decide_device(connection: Connection, caller: Caller, code: str, now: Instant, *, is_denied: bool) -> bool:
    """Let the command with this code act as the caller, or not. False: no such code."""
    named = tickets.take(connection, _user_code_digest(code), USER_CODE, now)
    waiting = tickets.peek(connection, named["device"], DEVICE, now) if named is not None else None
    if named is None or waiting is None:
        return False
    granted = {} if is_denied else _granted_by(connection, caller)
    tickets.change(connection, named["device"], {**waiting, **granted, "is_denied": is_denied})
    return True


def _user_code_digest(code: str) -> str:
    """However it was typed."""
    return digest_of("".join(each for each in code.upper() if each.isalnum()))


def redeem_device(connection: Connection, now: Instant, device: str | None) -> Redeemed | Refused:
    """Who approved the sign-in of this command."""
    if not device:
        return refused(422, "access.incomplete", "this grant needs deviceCode", "set it")
    digest = digest_of(device)
    ticket = tickets.peek(connection, digest, DEVICE, now)
    if ticket is not None and ticket["is_denied"]:
        tickets.take(connection, digest, DEVICE, now)
        return refused(400, "access.code_denied", "the sign-in was denied in the browser", "start again")
    if ticket is not None and not ticket["user"]:
        if now - ticket["asked_at"] < (INTERVAL_S * SECOND_MS) // 2:
            return refused(400, "access.slow_down", "this is asked too often", f"wait {INTERVAL_S} s")
        tickets.change(connection, digest, {**ticket, "asked_at": now})
        return refused(400, "access.authorization_pending", "the sign-in is not approved yet", "ask again later")
    tickets.take(connection, digest, DEVICE, now)
    redeemed = _redeemed(connection, ticket) if ticket is not None else None
    if redeemed is None:
        return refused(400, "access.expired_code", "this device code is wrong or has expired", "start again")
    return redeemed


# --- both ------------------------------------------------------------------------------------------------------------


def _granted_by(connection: Connection, caller: Caller) -> dict[str, Any]:
    """Whose tokens a command gets, and the browser's session that must go on until it has them. If they signed in at a
    provider, the command's session lasts only as long as the one there."""
    session = provider_store.session_of(connection, caller.family)
    return {"user": caller.id, "family": caller.family, "session": session.id if session is not None else ""}


def _redeemed(connection: Connection, ticket: dict[str, Any]) -> Redeemed | None:
    user, family = access_store.user(connection, ticket["user"]), str(uuid.uuid4())
    browser = session_store.one(connection, ticket["family"])
    if (
        user is None
        or user.disabled
        # A new password, or an administrator, ends the sessions of a user: codes that these gave out end with them.
        or browser is None
        or (ticket["session"] and provider_store.session(connection, ticket["session"]) is None)
    ):
        return None
    if ticket["session"]:
        provider_store.add_family(connection, ticket["session"], family)
    return Redeemed(user, family, browser.expires_at if ticket["session"] else None)
