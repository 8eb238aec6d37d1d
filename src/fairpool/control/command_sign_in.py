"""HTTP routes by which a command begins to sign in: which ways there are, and device codes."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from fairpool.api import command_sign_in as wire
from fairpool.api.sessions import SignInMethod
from fairpool.control.attempts import network_of
from fairpool.control.command_grants import DEVICE_S, INTERVAL_S, DeviceCodes, new_device_codes
from fairpool.control.plane import Plane
from fairpool.control.provider_settings import base_address
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Routes
from fairpool.control.sign_in_attempt import is_over_rate
from fairpool.control.store import identity_providers as provider_store
from fairpool.control.store.database import Connection
from fairpool.control.tokens import origin_of

routes = Routes("access")

DEVICES_A_MINUTE: Final = 20
"""New device codes for one address."""
CODES_A_MINUTE: Final = 20
"""Looked up and decided on by one user; a sign-in takes both. With 25 billion codes, guessing takes long enough."""


@routes.get(
    "/api/v1/sign-in/ways",
    action=Action.OPEN,
    answer=wire.SignInWays,
    summary="List how people sign in: by password, and with which identity providers",
)
async def ways(plane: Plane) -> wire.SignInWays:
    found = await plane.read(provider_store.all_providers)
    return wire.SignInWays(providers=[each.alias for each in found])


@routes.post(
    "/api/v1/sign-in/device",
    action=Action.OPEN,
    answer=wire.DeviceAuthorization,
    summary="Begin a sign-in that is approved in a browser on any machine (RFC 8628)",
)
async def begin_device(request: Request, plane: Plane) -> wire.DeviceAuthorization:
    """Ask for tokens with the device code until it is approved: POST /api/v1/token."""
    origin = origin_of(request, SignInMethod.DEVICE_CODE)
    name = f"device codes from {network_of(origin.address)}"

    def unit(connection: Connection) -> DeviceCodes | None:
        if is_over_rate(connection, name, DEVICES_A_MINUTE, plane.now()):
            raise _too_many("too many sign-ins with a device code were begun from your address")
        return new_device_codes(connection, origin, plane.now())

    codes = await plane.write(unit)
    if codes is None:
        raise _too_many("too many sign-ins with a device code are waiting")
    page = f"{base_address(request)}/device"
    return wire.DeviceAuthorization(
        device_code=codes.device,
        user_code=codes.user,
        verification_uri=page,
        verification_uri_complete=f"{page}?code={codes.user}",
        expires_in=DEVICE_S,
        interval=INTERVAL_S,
    )


def _too_many(what: str) -> Refused:
    refusal = refused(429, "access.too_many_attempts", what, "wait a minute, then try again")
    refusal.headers["Retry-After"] = "60"
    return refusal
