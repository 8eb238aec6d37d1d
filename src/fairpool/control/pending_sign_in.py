"""A sign-in at an identity provider between there and back, in an encrypted cookie of its browser.

So unknown callers who begin sign-ins fill no table, and a sign-in that was begun in one browser cannot be ended in
another (login CSRF, fixation).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Literal, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from fairpool.control.guard import digest_of
from fairpool.control.plane import Plane
from fairpool.control.provider_settings import readable_key
from fairpool.control.sealing import SealingKey

COOKIE = "fairpool_sign_in_"
BOUND_TO = "sign-in at an identity provider"
PENDING_S = 600
"""How long a person may take at the provider."""


class _Attributes(TypedDict):
    path: str
    secure: bool
    httponly: bool
    samesite: Literal["lax"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSignIn:
    """A sign-in on its way, as its browser keeps it."""

    provider: str
    state: str
    nonce: str
    """That the answer must name: in an ID token, or as the request that a SAML response answers."""
    verifier: str
    """Empty for SAML."""
    back: str
    following: str
    expires_at: int


def keep(request: Request, answer: Response, key: SealingKey, pending: PendingSignIn) -> None:
    said = {name: str(getattr(pending, name)).encode() for name in PendingSignIn.__slots__}
    answer.set_cookie(
        _cookie(request, pending.state),
        key.seal(said, BOUND_TO),
        max_age=PENDING_S,
        **_attributes(request),
    )


def pending_sign_in(request: Request, plane: Plane, alias: str, state: str) -> PendingSignIn | None:
    """The sign-in that this browser began with this state; None: it did not, or too long ago."""
    key = readable_key(plane)
    sealed = request.cookies.get(_cookie(request, state), "")
    said = key.unseal(sealed, BOUND_TO) if key is not None and sealed else None
    if said is None:
        return None
    words = {name: value.decode() for name, value in said.items()}
    until = int(words.pop("expires_at"))
    found = PendingSignIn(**words, expires_at=until)
    is_ours = found.provider == alias and hmac.compare_digest(found.state.encode(), state.encode())
    return found if is_ours and found.expires_at > plane.now() else None


def forget(request: Request, answer: Response, pending: PendingSignIn) -> None:
    """It has ended, well or not."""
    answer.delete_cookie(_cookie(request, pending.state), **_attributes(request))


def _cookie(request: Request, state: str) -> str:
    """Each sign-in has its own: a person may have begun two, in two tabs.

    With TLS the browser itself ensures that no other host has set it: an attacker on another subdomain could plant the
    cookie of a sign-in that they began, and so sign the person in as themselves.
    """
    return ("__Host-" if _is_secure(request) else "") + COOKIE + digest_of(state)[:16]


def _attributes(request: Request) -> _Attributes:
    """Browsers keep and delete a `__Host-` cookie only with path / and marked as secure."""
    is_secure = _is_secure(request)
    return {"path": "/" if is_secure else "/sign-in", "secure": is_secure, "httponly": True, "samesite": "lax"}


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"
