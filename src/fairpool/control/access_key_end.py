"""Until when an access key works."""

from __future__ import annotations

from typing import Any

from fairpool.control import preferences
from fairpool.control.settings import Settings
from fairpool.control.store import access as access_store
from fairpool.control.store import identity_providers as provider_store
from fairpool.control.store import sessions
from fairpool.control.store.database import Connection
from fairpool.model.ids import SECOND_MS

DAY_MS = 86_400 * SECOND_MS


def confirmed_until(connection: Connection, settings: Settings, owner: str) -> int | None:
    """Until when the keys of a user work without another sign-in at their identity provider, which alone knows whether
    the account still exists; None: of a local user or a program, for ever."""
    user = access_store.user(connection, owner)
    if user is None or user.identity_provider is None:
        return None
    days = preferences.current_value(settings, connection, preferences.KEY_CONFIRMED)
    return provider_store.confirmed_at(connection, owner) + days * DAY_MS


def key_end(connection: Connection, settings: Settings, key: Any) -> int | None:
    """When an access key ends as things are now; None: never."""
    ends = (key.expires_at, confirmed_until(connection, settings, key.owner))
    return min((each for each in ends if each is not None), default=None)


def end_key_sessions(connection: Connection, key_id: str) -> None:
    """With their tokens."""
    for family in sessions.of_access_key(connection, key_id):
        access_store.revoke_family(connection, family)
