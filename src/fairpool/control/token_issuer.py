"""HTTP routes for the issuer of tokens: discovery document, public keys, and the rotation of keys."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import sessions as wire
from fairpool.api.access import GrantType, SubjectType
from fairpool.control.clusters import known_cluster
from fairpool.control.moments import iso, iso_or_none
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, denied, refused
from fairpool.control.routes import Routes
from fairpool.control.store import access as access_store
from fairpool.control.store import sessions as store
from fairpool.control.store.database import Connection
from fairpool.control.token_keys import ALGORITHM, KeysUnusable, TokenKey
from fairpool.control.tokens import new_kubernetes_token

routes = Routes("access")

CLAIMS = ("iss", "aud", "sub", "email", "groups", "preferred_username", "exp", "iat", "jti", "sid", "client_id")
REALM = "/auth/realms/{realm}"
"""Older documents name a realm; there is one, whatever it is called."""


@routes.get(
    "/.well-known/openid-configuration", action=Action.OPEN, answer=wire.Discovery, summary="Discover the token issuer"
)
@routes.get(
    f"{REALM}/.well-known/openid-configuration",
    action=Action.OPEN,
    answer=wire.Discovery,
    summary="Discover the token issuer (legacy path)",
)
async def discovery(plane: Plane) -> wire.Discovery:
    issuer = plane.settings.issuer
    return wire.Discovery(
        issuer=issuer,
        jwks_uri=f"{issuer}/.well-known/jwks.json",
        token_endpoint=f"{issuer}/api/v2/token",
        userinfo_endpoint=f"{issuer}/api/v1/me/userinfo",
        grant_types_supported=list(GrantType),
        response_types_supported=[],
        subject_types_supported=["public"],
        id_token_signing_alg_values_supported=[ALGORITHM],
        token_endpoint_auth_methods_supported=["client_secret_post"],
        claims_supported=list(CLAIMS),
        scopes_supported=["openid"],
    )


@routes.get("/.well-known/jwks.json", action=Action.OPEN, answer=wire.KeySet, summary="Get the public keys of tokens")
@routes.get(
    f"{REALM}/protocol/openid-connect/certs",
    action=Action.OPEN,
    answer=wire.KeySet,
    summary="Get the public keys of tokens (legacy path)",
)
async def key_set(plane: Plane) -> wire.KeySet:
    try:
        return wire.KeySet(keys=plane.token_keys.jwks(plane.now()))
    except KeysUnusable as error:
        raise _unusable(error) from error


@routes.get("/api/v1/me/userinfo", action=Action.SELF, answer=wire.UserInfo, summary="Get claims about the caller")
@routes.get(
    f"{REALM}/protocol/openid-connect/userinfo",
    action=Action.SELF,
    answer=wire.UserInfo,
    summary="Get claims about the caller (legacy path)",
)
async def user_info(caller: Caller) -> wire.UserInfo:
    email = caller.name if caller.kind == "user" else None
    return wire.UserInfo(sub=caller.id, preferred_username=caller.name, email=email)


@routes.post(
    "/api/v1/clusters/{cluster_id}/kubernetes-token",
    action=Action.SELF,
    answer=wire.KubernetesToken,
    summary="Get a token of the caller for the API server of a Kubernetes cluster",
)
async def kubernetes_token(cluster_id: str, plane: Plane, caller: Caller) -> wire.KubernetesToken:
    """What the user may do there is decided by the API server. An access key with a scope of its own has no say there,
    so it gets none."""
    if caller.kind != SubjectType.USER:
        raise denied("only users have tokens for Kubernetes", "sign in with `runai login`")
    if caller.owner_grants is not None:
        raise denied("this access key is restricted, which Kubernetes does not know", "sign in with `runai login`")
    return await plane.read(
        lambda connection: new_kubernetes_token(connection, plane, caller, known_cluster(connection, cluster_id).id)
    )


@routes.get(
    "/api/v1/security/token-keys",
    action=Action.SETTING_READ,
    answer=wire.TokenKeyPage,
    summary="List the keys that tokens are signed with",
)
async def token_keys(plane: Plane, caller: Caller) -> wire.TokenKeyPage:
    caller.require(Action.SETTING_READ)
    try:
        return _page(plane.token_keys.published(plane.now()))
    except KeysUnusable as error:
        raise _unusable(error) from error


@routes.post(
    "/api/v1/security/token-keys/rotate",
    action=Action.SETTING_WRITE,
    answer=wire.TokenKeyPage,
    summary="Sign tokens with a new key from now on",
)
async def rotate_token_keys(request: Request, plane: Plane, caller: Caller, body: wire.RotationRequest) -> Response:
    """If the transaction is undone after the file was written, there is one rotation too many, which does no harm."""
    caller.require(Action.SETTING_WRITE)

    def unit(connection: Connection) -> ActionResult:
        now = plane.now()
        until = store.latest_expiry(connection, now) if body.overlap else None
        try:
            keys = plane.token_keys.rotate(now, until)
        except KeysUnusable as error:
            raise _unusable(error) from error
        if not body.overlap:
            access_store.revoke_access_tokens(
                connection
            )  # also of those who have a stream open, whose token is not shown again
        name = f"{keys[0].id}, earlier keys {'stay until their tokens expire' if body.overlap else 'end at once'}"
        made = _page(keys)
        return ActionResult(body=made, action="update", entity_type="token-key", entity_id=keys[0].id, entity_name=name)

    return await plane.perform(request, caller, unit)


def _page(keys: tuple[TokenKey, ...]) -> wire.TokenKeyPage:
    shown = [
        wire.TokenKeyAnswer(
            id=each.id,
            algorithm=ALGORITHM,
            created_at=iso(each.created_at),
            published_until=iso_or_none(each.until),
        )
        for each in keys
    ]
    return wire.TokenKeyPage(keys=shown)


def _unusable(error: KeysUnusable) -> Refused:
    return refused(503, error.problem.code, error.problem.what, error.problem.fix)
