"""SQL for identity providers, their accounts and sessions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.engine import Row

from fairpool.control.store.access_revision import same_callers
from fairpool.control.store.tables import (
    identity_providers,
    provider_accounts,
    provider_session_families,
    provider_sessions,
    tokens,
)
from fairpool.model.ids import Instant


def all_providers(connection: Connection) -> list[Row[Any]]:
    return list(connection.execute(select(identity_providers).order_by(identity_providers.c.alias)))


def provider(connection: Connection, alias: str) -> Row[Any] | None:
    return connection.execute(select(identity_providers).where(identity_providers.c.alias == alias)).one_or_none()


def add_provider(connection: Connection, alias: str, **values: Any) -> None:
    connection.execute(insert(identity_providers).values(alias=alias, **values))


def change_provider(connection: Connection, alias: str, **values: Any) -> None:
    connection.execute(update(identity_providers).where(identity_providers.c.alias == alias).values(**values))


def delete_provider(connection: Connection, alias: str) -> None:
    """With its accounts; end its sessions first."""
    connection.execute(delete(provider_accounts).where(provider_accounts.c.provider == alias))
    connection.execute(delete(identity_providers).where(identity_providers.c.alias == alias))


# --- accounts ----------------------------------------------------------------------------------------------------


def account(connection: Connection, provider: str, subject: str) -> Row[Any] | None:
    table = provider_accounts.c
    query = select(provider_accounts).where(table.provider == provider, table.subject == subject)
    return connection.execute(query).one_or_none()


def put_account(
    connection: Connection, provider: str, subject: str, user_id: str, unix_identity: str, now: Instant
) -> None:
    """Instead of the one that there was, if any."""
    table = provider_accounts.c
    connection.execute(delete(provider_accounts).where(table.provider == provider, table.subject == subject))
    values = {"provider": provider, "subject": subject, "user_id": user_id, "unix_identity": unix_identity}
    connection.execute(insert(provider_accounts).values(**values, created_at=now))


def unix_identities(connection: Connection, user_id: str) -> list[str]:
    """What the providers say about the accounts of a user."""
    query = select(provider_accounts.c.unix_identity).where(provider_accounts.c.user_id == user_id)
    return list(connection.execute(query.order_by(provider_accounts.c.provider)).scalars())


def confirm_account(connection: Connection, provider: str, subject: str, unix_identity: str, now: Instant) -> None:
    """The provider says now that this account exists, and with which IDs. Access keys may work for longer then, which
    holds for a caller from the moment that they would have ended."""
    table = provider_accounts.c
    where = (table.provider == provider) & (table.subject == subject)
    values = {"unix_identity": unix_identity, "confirmed_at": now}
    connection.execute(same_callers(update(provider_accounts).where(where).values(**values)))


def confirmed_at(connection: Connection, user_id: str) -> int:
    """When a provider last confirmed an account of this user; 0: never, or their provider was deleted."""
    query = select(func.max(provider_accounts.c.confirmed_at)).where(provider_accounts.c.user_id == user_id)
    return int(connection.execute(query).scalar_one() or 0)


def users_of(connection: Connection, provider: str) -> list[str]:
    """Those who have an account of a provider."""
    query = select(provider_accounts.c.user_id).where(provider_accounts.c.provider == provider).distinct()
    return list(connection.execute(query.order_by(provider_accounts.c.user_id)).scalars())


# --- sessions ----------------------------------------------------------------------------------------------------


def add_session(connection: Connection, session_id: str, **values: Any) -> None:
    connection.execute(insert(provider_sessions).values(id=session_id, **values))


def session_of(connection: Connection, family: str) -> Row[Any] | None:
    """The sign-in at a provider that this family of tokens came of."""
    linked = provider_session_families.c.session == provider_sessions.c.id
    query = select(provider_sessions).join(provider_session_families, linked)
    return connection.execute(query.where(provider_session_families.c.family == family)).one_or_none()


def session(connection: Connection, session_id: str) -> Row[Any] | None:
    return connection.execute(select(provider_sessions).where(provider_sessions.c.id == session_id)).one_or_none()


def add_family(connection: Connection, session_id: str, family: str) -> None:
    connection.execute(insert(provider_session_families).values(family=family, session=session_id))


def seal_session(connection: Connection, session_id: str, sealed: str, key_id: str) -> None:
    where = provider_sessions.c.id == session_id
    connection.execute(update(provider_sessions).where(where).values(sealed=sealed, key_id=key_id))


def sessions(connection: Connection, provider: str, *, sid: str = "", subject: str = "") -> list[str]:
    """Of a provider: all of them, or those of one of its sessions or accounts."""
    table = provider_sessions.c
    query = select(table.id).where(table.provider == provider)
    if sid:
        query = query.where(table.sid == sid)
    if subject:
        query = query.where(table.subject == subject)
    return list(connection.execute(query.order_by(table.id)).scalars())


def families(connection: Connection, session_id: str) -> list[str]:
    table = provider_session_families.c
    return list(connection.execute(select(table.family).where(table.session == session_id)).scalars())


def delete_session(connection: Connection, session_id: str) -> None:
    table = provider_session_families.c
    connection.execute(delete(provider_session_families).where(table.session == session_id))
    connection.execute(delete(provider_sessions).where(provider_sessions.c.id == session_id))


def drop_ended(connection: Connection) -> None:
    """Forget families that have no token any more, and sessions that have no family any more."""
    alive = select(tokens.c.family)
    connection.execute(
        delete(provider_session_families).where(provider_session_families.c.family.not_in(alive.distinct()))
    )
    used = select(provider_session_families.c.session)
    connection.execute(delete(provider_sessions).where(provider_sessions.c.id.not_in(used.distinct())))
