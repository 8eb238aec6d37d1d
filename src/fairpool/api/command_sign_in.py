"""Sign-in of a command by way of a browser, as requests and answers."""

from __future__ import annotations

from pydantic import Field

from fairpool.api.wire import Answer


class SignInWays(Answer):
    """How people sign in here."""

    password: bool = True
    providers: list[str] = Field(default_factory=list)
    """Names of identity providers."""


class DeviceAuthorization(Answer):
    """A sign-in that is approved in a browser on any machine (RFC 8628)."""

    device_code: str
    """For the command: it asks for tokens with it until the sign-in is approved."""
    user_code: str
    """For the person, to be compared or typed."""
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int
    """How many seconds to wait between two requests for tokens."""
