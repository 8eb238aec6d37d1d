"""Who signed in, from the claims of an identity provider. Pure.

Claims are JSON values (OpenID Connect) or lists of text (SAML). A name with dots also finds a value in nested objects:
`realm_access.roles`. An account is known by the provider's own ID for it, never by its email address: a provider may
give an address to another person, and an address may be that of a local account.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairpool.api.access import Email
from fairpool.api.identity_providers import MandatoryClaim, MappersAnswer
from fairpool.api.wire import Request, ValidationError
from fairpool.model.problem import Problem

GROUPS_MAX: Final = 1000
GROUP_MAX: Final = 256
SUBJECT_MAX: Final = 256
UNIX_GROUPS_MAX: Final = 64
ID_MAX: Final = 2**32 - 2
_UNIX: Final = {"uid": "UID", "gid": "GID", "supplementary_groups": "SUPPLEMENTARYGROUPS"}
DEFAULTS: Final = {
    "oidc": MappersAnswer(email="email", groups="groups", **_UNIX),
    "saml": MappersAnswer(email="email", groups="GROUPS", **_UNIX),
}


@dataclass(frozen=True, slots=True)
class UnixIdentity:
    """The numbers that a directory gives a person; None: it gives none."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()

    def text(self) -> str:
        return json.dumps({"uid": self.uid, "gid": self.gid, "groups": self.groups})

    @classmethod
    def from_text(cls, text: str) -> UnixIdentity:
        said = json.loads(text)
        return cls(said["uid"], said["gid"], tuple(said["groups"]))


@dataclass(frozen=True, slots=True)
class ProviderIdentity:
    """An account of a provider."""

    subject: str
    email: str
    groups: tuple[str, ...]
    unix: UnixIdentity


def identity_of(
    subject: object,
    claims: Mapping[str, Any],
    mappers: MappersAnswer,
    mandatory: MandatoryClaim | None = None,
    known: UnixIdentity | None = None,
) -> ProviderIdentity | Problem:
    """The account that these claims describe, or why it cannot sign in. `known`: numbers that stay where a renewed
    token says nothing of them, since many providers repeat only a part of the claims."""
    if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_MAX or not subject.isprintable():
        return Problem("idp.subject", "the identity provider does not say which account signed in", _ASK)
    if mandatory is not None and not set(_texts(claims, mandatory.claim)) & set(mandatory.values):
        what = f"your account at the identity provider lacks what this platform requires ({mandatory.claim})"
        return Problem("idp.mandatory_claim", what, _ASK)
    email = _email(claims, mappers.email)
    if isinstance(email, Problem):
        return email
    groups = [each for each in _texts(claims, mappers.groups) if len(each) <= GROUP_MAX and each.isprintable()]
    if len(groups) > GROUPS_MAX:
        what = f"the identity provider names {len(groups)} groups, and at most {GROUPS_MAX} are accepted"
        return Problem("idp.groups", what, "ask your administrator to send only those that this platform uses")
    return ProviderIdentity(subject, email, tuple(sorted(set(groups))), _unix(claims, mappers, known or UnixIdentity()))


def _unix(claims: Mapping[str, Any], mappers: MappersAnswer, known: UnixIdentity) -> UnixIdentity:
    def is_said(name: str) -> bool:
        return _value(claims, name) is not None

    more = mappers.supplementary_groups
    return UnixIdentity(
        _number(claims, mappers.uid) if is_said(mappers.uid) else known.uid,
        _number(claims, mappers.gid) if is_said(mappers.gid) else known.gid,
        _numbers(claims, more) if is_said(more) else known.groups,
    )


_ASK = "ask your administrator"


class _Address(Request):
    email: Email


def _email(claims: Mapping[str, Any], name: str) -> str | Problem:
    found = _texts(claims, name)
    if not found:
        fix = f"ask your administrator to add the claim {name!r} at the identity provider, or to map another one"
        return Problem("idp.no_email", "the identity provider does not say your email address", fix)
    if claims.get("email_verified") in (False, "false") and name == "email":
        what = f"the identity provider has not verified the email address {found[0][:256]}"
        return Problem("idp.unverified_email", what, "verify it there, then sign in again")
    try:
        return _Address(email=found[0]).email
    except ValidationError:
        return Problem("idp.email", f"{found[0][:256]!r} is not a valid email address", _ASK)


def defaults_filled(asked: Mapping[str, str | None], kind: str) -> MappersAnswer:
    """Which claim has what: as asked, else the default of this type of provider."""
    return DEFAULTS[kind].model_copy(update={name: value for name, value in asked.items() if value})


def _value(claims: Mapping[str, Any], name: str) -> Any:
    if name in claims:
        return claims[name]
    at: Any = claims
    for word in name.split("."):
        at = at.get(word) if isinstance(at, Mapping) else None
    return at


def _texts(claims: Mapping[str, Any], name: str) -> list[str]:
    value = _value(claims, name)
    listed: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
    found = [str(each) if isinstance(each, int) else each for each in listed if not isinstance(each, bool)]
    return [each.strip() for each in found if isinstance(each, str) and each.strip()]


def _number(claims: Mapping[str, Any], name: str) -> int | None:
    return next(iter(_numbers(claims, name)), None)


def _numbers(claims: Mapping[str, Any], name: str) -> tuple[int, ...]:
    words = [word for text in _texts(claims, name) for word in text.replace(",", " ").split()]
    found = [int(each) for each in words if each.isascii() and each.isdigit() and len(each) <= 10]
    return tuple(dict.fromkeys(each for each in found if each <= ID_MAX))[:UNIX_GROUPS_MAX]
