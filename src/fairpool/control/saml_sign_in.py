"""HTTP routes by which a browser comes back from a SAML provider, and the metadata of this platform for it.

The provider's page posts the response. With a post from another site the browser does not send the cookie of the
sign-in that it began, so the response is only checked and kept then, and the browser is led to a page that gets the
cookie. Nothing is kept of a response that is not signed by the provider, so unknown callers fill no table. What the
provider sends back besides (`RelayState`) only finds that cookie: it is never an address to go to.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import asdict
from typing import Annotated
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fairpool.control import saml
from fairpool.control.guard import digest_of
from fairpool.control.page_layout import HEADERS
from fairpool.control.pending_sign_in import PendingSignIn, forget, pending_sign_in
from fairpool.control.plane import Plane
from fairpool.control.provider_client import ProviderClient, SamlProvider
from fairpool.control.provider_error import ProviderError
from fairpool.control.provider_identity import identity_of
from fairpool.control.provider_settings import ProviderSettings, provider_path
from fairpool.control.provider_sign_in import (
    NOT_BEGUN,
    RefusedSignIn,
    failed,
    known_provider,
    platform_of,
    refused_sign_in,
    signed_in_by,
)
from fairpool.control.rbac import Action
from fairpool.control.routes import Parameter, Routes
from fairpool.control.saml import Assertion
from fairpool.control.store import sign_in_tickets as tickets
from fairpool.control.store.database import Connection
from fairpool.model.ids import SECOND_MS
from fairpool.model.problem import Problem

routes = Routes(in_document=False)

USED_ASSERTION = "assertion"
CHECKED_RESPONSE = "saml response"
LED_ON_S = 60
"""How long a browser may take from the post to the page after it."""
STATE_MAX = 256
Text = Annotated[str, Parameter(max_length=STATE_MAX)]


@routes.get(
    "/sign-in/with/{idp}/metadata",
    action=Action.OPEN,
)
async def platform_metadata(idp: str, request: Request, plane: Plane) -> Response:
    """What to import at the provider."""
    try:
        _, provider = await _saml_provider(plane, idp)
    except ProviderError as error:
        return failed(error.problem)
    text = saml.platform_metadata(platform_of(request, provider))
    return Response(text, media_type="application/samlmetadata+xml", headers={"X-Content-Type-Options": "nosniff"})


@routes.post(
    "/sign-in/with/{idp}/acs",
    action=Action.OPEN,
    body_max_bytes=2 * saml.RESPONSE_MAX,
)
async def receive(idp: str, request: Request, plane: Plane) -> Response:
    """The browser brings a response of the provider: it is checked, and the browser led on."""
    form = await request.form()
    response, state = form.get("SAMLResponse"), str(form.get("RelayState", ""))[:STATE_MAX]
    try:
        _, provider = await _saml_provider(plane, idp)
    except ProviderError as error:  # without an entry: names that anyone can invent fill no log
        return failed(error.problem)
    platform = platform_of(request, provider)
    client: ProviderClient = request.app.state.provider_client
    try:
        now_s = plane.now() // SECOND_MS
        found = await client.with_certificates(
            plane, provider, lambda metadata: saml.read_response(response, metadata, platform, now_s)
        )
        ticket = secrets.token_urlsafe(32)
        await plane.write(lambda connection: _keep_once(connection, plane, idp, found, ticket))
    except ProviderError as error:
        return await refused_sign_in(request, plane, idp, error.problem, "/")
    there = f"{provider_path(idp, 'acs')}?{urlencode({'ticket': ticket, 'state': state})}"
    return RedirectResponse(there, 303, HEADERS)


def _keep_once(connection: Connection, plane: Plane, alias: str, found: Assertion, ticket: str) -> None:
    """Refuse what was used before, also at another control plane: each assertion is remembered until it expires."""
    now = plane.now()
    if not tickets.use_once(
        connection, digest_of(f"{alias} {found.id}"), USED_ASSERTION, now, found.expires_at_s * SECOND_MS
    ):
        raise ProviderError("this response of the identity provider was used before", "start again", "idp.replayed")
    document = {"provider": alias, "assertion": asdict(found)}
    tickets.add(connection, digest_of(ticket), CHECKED_RESPONSE, document, now + LED_ON_S * SECOND_MS)


@routes.get(
    "/sign-in/with/{idp}/acs",
    action=Action.OPEN,
)
async def come_back(idp: str, request: Request, plane: Plane, ticket: Text = "", state: Text = "") -> Response:
    """The browser that began the sign-in shows that it did."""
    pending = pending_sign_in(request, plane, idp, state)
    if pending is None:
        return failed(NOT_BEGUN)
    try:
        answer = await _signed_in(request, plane, pending, ticket)
    except ProviderError as error:
        answer = await refused_sign_in(request, plane, idp, error.problem, pending.following)
    forget(request, answer, pending)
    return answer


async def _signed_in(request: Request, plane: Plane, pending: PendingSignIn, ticket: str) -> Response:
    settings, _ = await _saml_provider(plane, pending.provider)
    digest = digest_of(ticket)
    kept = await plane.write(lambda connection: tickets.take(connection, digest, CHECKED_RESPONSE, plane.now()))
    if kept is None or kept["provider"] != pending.provider:
        raise RefusedSignIn(NOT_BEGUN)
    said = Assertion(**kept["assertion"])
    if not hmac.compare_digest(said.in_response_to.encode(), pending.nonce.encode()):
        raise ProviderError("the response of the identity provider answers another sign-in", "start again")
    claims = {**({settings.mappers.email: [said.email]} if said.email else {}), **said.claims}
    identity = identity_of(said.subject, claims, settings.mappers, settings.mandatory_claim)
    if isinstance(identity, Problem):
        raise RefusedSignIn(identity)
    ends_at = said.session_ends_at_s * SECOND_MS if said.session_ends_at_s is not None else None
    return await signed_in_by(
        request, plane, pending.provider, identity, pending.following, sid=said.session, ends_at=ends_at
    )


async def _saml_provider(plane: Plane, alias: str) -> tuple[ProviderSettings, SamlProvider]:
    settings = await known_provider(plane, alias)
    if settings.saml is None:
        raise ProviderError(f"{alias} is not a SAML provider", "start again", "idp.unknown")
    return settings, settings.saml
