"""Refusals of what an identity provider said, in words for the person who signs in."""

from __future__ import annotations

from fairpool.model.problem import Problem


class ProviderError(Exception):
    """The provider said something that is not accepted, or refused; in words for the person who signs in."""

    def __init__(self, what: str, fix: str = "try again, or ask your administrator", code: str = "idp.refused") -> None:
        super().__init__(what)
        self.problem = Problem(code, what, fix)


class UnknownKey(ProviderError):
    """It is signed with a key that is not among those that were fetched: perhaps the key is new."""


class SessionEnded(ProviderError):
    """The provider does not renew the session: it ended, or the account was disabled or removed."""


def unusable(why: str) -> ProviderError:
    """What a provider publishes, or how it is configured, does not work with this platform."""
    return ProviderError(f"the identity provider cannot be used: {why}", "check its settings", "idp.unusable")
