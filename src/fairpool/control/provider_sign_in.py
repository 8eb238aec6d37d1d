"""HTTP routes by which a browser signs in at an identity provider, and comes back from one of OpenID Connect.

It comes back from a SAML provider in `control/saml_sign_in.py`.
"""

from __future__ import annotations

import uuid
from html import escape
from typing import Annotated, Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from fairpool.api.gateway_address import PATH_MAX, local_path
from fairpool.api.sessions import SignInMethod
from fairpool.control import oidc, preferences, saml
from fairpool.control.guard import digest_of
from fairpool.control.page_layout import HEADERS, layout
from fairpool.control.pages import with_session
from fairpool.control.pending_sign_in import PENDING_S, PendingSignIn, forget, keep, pending_sign_in
from fairpool.control.plane import ActionResult, Caller, Plane, entry
from fairpool.control.provider_accounts import admit, changes_noted
from fairpool.control.provider_client import ProviderClient, SamlProvider
from fairpool.control.provider_error import ProviderError
from fairpool.control.provider_identity import ProviderIdentity, identity_of
from fairpool.control.provider_sessions import begin_session, end_sessions
from fairpool.control.provider_settings import ProviderSettings, base_address, provider_path, provider_settings
from fairpool.control.rbac import Action
from fairpool.control.routes import Parameter, Routes
from fairpool.control.sealing import KeyUnusable, SealingKey
from fairpool.control.store import audit as audit_store
from fairpool.control.store import identity_providers as store
from fairpool.control.store import sign_in_tickets as tickets
from fairpool.control.store.database import Connection
from fairpool.control.tokens import new_browser_token, origin_of
from fairpool.model.ids import SECOND_MS
from fairpool.model.problem import Problem

routes = Routes(in_document=False)

USED_LOGOUT = "logout"
Text = Annotated[str, Parameter(max_length=4096)]


@routes.get(
    "/sign-in/with/{idp}",
    action=Action.OPEN,
)
async def begin(
    idp: str,
    request: Request,
    plane: Plane,
    following: Annotated[str, Parameter(alias="next", max_length=PATH_MAX)] = "/",
) -> Response:
    """Lead the browser to the provider."""
    try:
        provider, key = await known_provider(plane, idp), sealing_key(plane)
        pending, there = await _led_to(request, plane, provider, local_path(following))
    except ProviderError as error:
        return failed(error.problem, following)
    answer = RedirectResponse(there, 303, HEADERS)
    keep(request, answer, key, pending)
    return answer


async def _led_to(
    request: Request, plane: Plane, provider: ProviderSettings, following: str
) -> tuple[PendingSignIn, str]:
    """What the browser keeps, and where it goes."""
    client: ProviderClient = request.app.state.provider_client
    asked, now = oidc.new_request(), plane.now()
    if provider.oidc is not None:
        nonce, back = asked.nonce, base_address(request) + provider_path(provider.alias, "callback")
        metadata = await client.metadata(plane, provider.oidc.discovery_url)
        there = oidc.authorization_url(metadata, provider.oidc.client, asked, back)
    else:
        assert provider.saml is not None
        nonce, platform = f"_{asked.nonce}", platform_of(request, provider.saml)
        back, described = platform.acs_url, await client.saml_metadata(plane, provider.saml)
        there = saml.sign_in_url(described, platform, nonce, asked.state, now // SECOND_MS)
    pending = PendingSignIn(
        provider=provider.alias,
        state=asked.state,
        nonce=nonce,
        verifier=asked.verifier if provider.oidc is not None else "",
        back=back,
        following=following,
        expires_at=now + PENDING_S * SECOND_MS,
    )
    return pending, there


def platform_of(request: Request, provider: SamlProvider) -> saml.ServiceProvider:
    """This platform, as the provider and this browser know it."""
    acs_url = base_address(request) + provider_path(provider.alias, "acs")
    return saml.ServiceProvider(entity_id=provider.entity_id, acs_url=acs_url)


@routes.get(
    "/sign-in/with/{idp}/callback",
    action=Action.OPEN,
)
async def come_back(
    idp: str,
    request: Request,
    plane: Plane,
    code: Text = "",
    state: Text = "",
    error: Text = "",
    iss: Text = "",
) -> Response:
    """The browser is back from an OpenID Connect provider, with a code."""
    pending = pending_sign_in(request, plane, idp, state)
    if pending is None:
        return failed(NOT_BEGUN)
    try:
        identity, tokens = await _identity(request, plane, pending, code, error, iss)
        if isinstance(identity, Problem):
            raise RefusedSignIn(identity)
        sid, refresh = str(tokens.get("sid") or ""), str(tokens.get("refresh_token") or "")
        answer = await signed_in_by(request, plane, idp, identity, pending.following, sid=sid, refresh_token=refresh)
    except ProviderError as refusal:
        answer = await refused_sign_in(request, plane, idp, refusal.problem, pending.following)
    forget(request, answer, pending)
    return answer


class RefusedSignIn(ProviderError):
    """For a reason that is known already."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.what, problem.fix, problem.code)


async def _identity(
    request: Request, plane: Plane, pending: PendingSignIn, code: str, error: str, issuer: str
) -> tuple[ProviderIdentity | Problem, dict[str, Any]]:
    provider = await known_provider(plane, pending.provider)
    if provider.oidc is None:
        raise ProviderError(f"{provider.alias} is not an OpenID Connect provider", "start again")
    client: ProviderClient = request.app.state.provider_client
    if error or not code:
        raise ProviderError(f"the identity provider did not let you in ({error[:64] or 'no code'})", "try again")
    metadata = await client.metadata(plane, provider.oidc.discovery_url)
    if issuer and issuer != metadata.issuer:
        raise ProviderError("the answer came from another identity provider", "start again")
    tokens = await client.exchanged(plane, provider.oidc, code, pending.verifier, pending.back)
    claims = await client.claims(plane, provider.oidc, tokens, provider.wanted_claims, nonce=pending.nonce)
    found = identity_of(claims.get("sub"), claims, provider.mappers, provider.mandatory_claim)
    return found, {"sid": claims.get("sid"), "refresh_token": tokens.get("refresh_token")}


async def signed_in_by(
    request: Request,
    plane: Plane,
    alias: str,
    identity: ProviderIdentity,
    following: str,
    *,
    sid: str = "",
    refresh_token: str = "",
    ends_at: int | None = None,
) -> Response:
    """A session for the user whose account this is, until the provider's own ends. Raises `ProviderError`."""
    key, family = sealing_key(plane), str(uuid.uuid4())

    def unit(connection: Connection) -> str | Problem:
        with changes_noted(connection, request, plane, alias, identity.subject):
            user = admit(connection, plane, alias, identity)
        if isinstance(user, Problem):
            return user
        caller = Caller(id=user.id, name=user.email, kind="user")
        # Not renewed, so it lasts as long as any token: then the provider is asked again.
        origin = origin_of(request, SignInMethod.IDENTITY_PROVIDER)
        token = new_browser_token(connection, plane, caller, origin, family, preferences.ACCESS_TOKEN, ends_at)
        begin_session(connection, plane, key, alias, identity, user.id, family, sid=sid, refresh_token=refresh_token)
        audit_store.add(connection, _line(request, plane, caller, "Succeeded"))
        return token

    signed_in = await plane.write(unit)
    if isinstance(signed_in, Problem):
        raise RefusedSignIn(signed_in)
    return await with_session(request, signed_in, local_path(following))


# --- back-channel logout -----------------------------------------------------------------------------------------


@routes.post(
    "/sign-in/with/{idp}/logout",
    action=Action.OPEN,
)
async def log_out(idp: str, request: Request, plane: Plane) -> Response:
    """The provider says that a session ended (OpenID Connect Back-Channel Logout)."""
    token = (await request.form()).get("logout_token")
    try:
        provider = await known_provider(plane, idp)
        if provider.oidc is None:
            raise ProviderError(f"{idp} is not an OpenID Connect provider")
        oidc_client, client_id = request.app.state.provider_client, provider.oidc.client.id
        metadata = await oidc_client.metadata(plane, provider.oidc.discovery_url)
        now_s = plane.now() // SECOND_MS
        said = await oidc_client.with_keys(
            plane, metadata, lambda keys: oidc.logout_of(token, keys, metadata, client_id, now_s)
        )
        await plane.write(lambda connection: _log_out(connection, request, plane, idp, said))
    except ProviderError as error:
        body = {"error": "invalid_request", "error_description": error.problem.what}
        return JSONResponse(body, 400, {"Cache-Control": "no-store"})
    return Response(None, 200, {"Cache-Control": "no-store"})


def _log_out(connection: Connection, request: Request, plane: Plane, alias: str, said: oidc.Logout) -> None:
    now = plane.now()
    if not tickets.use_once(
        connection, digest_of(f"{alias} {said.id}"), USED_LOGOUT, now, said.expires_at_s * SECOND_MS
    ):
        raise ProviderError("this logout token was used before")
    # All sessions of the account, where it is named: Keycloak announces one of several that it ends.
    by = {"subject": said.subject} if said.subject else {"sid": said.sid}
    end_sessions(connection, store.sessions(connection, alias, **by))
    account = store.account(connection, alias, said.subject) if said.subject else None
    caller = Caller(id=account.user_id if account is not None else "", name=alias, kind="app")
    done = ActionResult(action="sign-out", entity_type="user", entity_id=caller.id, entity_name=caller.id)
    audit_store.add(connection, entry(request, caller, done, now))


# --- what is configured --------------------------------------------------------------------------------------------


NOT_BEGUN = Problem(
    "idp.not_begun",
    "this sign-in was not started in this browser, or took longer than 10 minutes",
    "start again, and allow cookies",
)


async def known_provider(plane: Plane, alias: str) -> ProviderSettings:
    row = await plane.read(lambda connection: store.provider(connection, alias))
    if row is None:
        raise ProviderError(f"there is no identity provider {alias[:64]}", "start again", "idp.unknown")
    return provider_settings(plane, row)


def sealing_key(plane: Plane) -> SealingKey:
    try:
        return plane.key_file.key()
    except KeyUnusable as error:
        raise RefusedSignIn(error.problem) from error


# --- refusals ------------------------------------------------------------------------------------------------------


async def refused_sign_in(request: Request, plane: Plane, alias: str, problem: Problem, following: str) -> Response:
    if plane.denials.is_worth_a_line(f"idp {alias}", plane.now(), alias, "App"):
        line = _line(request, plane, Caller(id="", name=alias, kind="app"), "Failed")
        await plane.write(lambda connection: audit_store.add(connection, line))
    return failed(problem, following)


def failed(problem: Problem, following: str = "/") -> Response:
    """A page that says why, and leads back."""
    again = f"/sign-in?{urlencode({'next': local_path(following)})}"
    what, fix = (text[:1].upper() + text[1:] for text in (problem.what, problem.fix))
    body = (
        f'<h1>Sign-in failed</h1><p class="wrong" role="alert">{escape(what)}.</p><p>{escape(fix)}.</p>'
        f'<nav><a href="{escape(again)}">Back to sign-in</a></nav>'
    )
    return layout("Sign-in failed", body, 404 if problem.code == "idp.unknown" else 400)


def _line(request: Request, plane: Plane, caller: Caller, result: str) -> dict[str, object]:
    done = ActionResult(
        action="sign-in", entity_type="user", entity_id=caller.id, entity_name=caller.name, result=result
    )
    return entry(request, caller, done, plane.now())
