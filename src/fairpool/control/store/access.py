"""SQL for users, applications, access rules and tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update
from sqlalchemy.engine import Row

from fairpool.api.access import ScopeType, SubjectType, normal_email
from fairpool.api.roles import ADMINISTRATOR
from fairpool.control.rbac import Grant
from fairpool.control.store.access_revision import same_callers
from fairpool.control.store.compiled import Compiled
from fairpool.control.store.counters import ACCESS_RULES, next_number
from fairpool.control.store.roles import permitted
from fairpool.control.store.tables import (
    access_keys,
    access_rules,
    applications,
    notifications,
    page_preferences,
    provider_accounts,
    roles,
    sessions,
    subscriptions,
    tokens,
    user_groups,
    users,
    webhooks,
)
from fairpool.model.ids import Instant


@dataclass(frozen=True, slots=True)
class TokenRow:
    """Whose token it is, and until when it is one."""

    hash: str
    family: str
    kind: str
    subject_id: str
    subject_type: SubjectType | None
    """None: a cluster."""
    expires_at: int | None
    created_at: int
    """Of a spent one: when it was used."""


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user."""

    id: str
    email: str
    password_hash: str
    must_change: bool
    first_password: bool
    created_at: int
    created_by: str = ""
    updated_at: int | None = None
    last_login_at: int | None = None
    identity_provider: str | None = None
    """None: the password is kept here."""
    disabled: bool = False


ACCESS, SPENT = "access", "spent"
NUMBER_DIGITS_MAX = 18
NAMES_AT_ONCE = 500
"""Parameters of a statement are limited."""

_TOKEN = select(tokens).where(tokens.c.hash == bindparam("hash"))
_IS_OWN = access_rules.c.subject_id == bindparam("subject"), access_rules.c.subject_type == bindparam("type")
_GRANTED = select(
    access_rules.c.role, access_rules.c.scope_type, access_rules.c.scope_id, roles.c.permissions, roles.c.enabled
)
_OWN_GRANTS = _GRANTED.select_from(access_rules.outerjoin(roles, roles.c.key == access_rules.c.role)).where(*_IS_OWN)
_GROUP_GRANTS = _GRANTED.select_from(
    user_groups.join(
        access_rules,
        (access_rules.c.subject_id == user_groups.c.group_name)
        & (access_rules.c.subject_type == SubjectType.GROUP.value),
    ).outerjoin(roles, roles.c.key == access_rules.c.role)
).where(user_groups.c.user_id == bindparam("subject"))
_SUBJECT_BY_TOKEN = Compiled(
    select(tokens.c.subject_id, tokens.c.subject_type).where(tokens.c.hash == bindparam("hash"))
)
_OWN = Compiled(_OWN_GRANTS)
_OF_GROUPS = Compiled(_GROUP_GRANTS)


def token(connection: Connection, digest: str) -> TokenRow | None:
    row = connection.execute(_TOKEN, {"hash": digest}).one_or_none()
    if row is None:
        return None
    kind = None if row.subject_type == "cluster" else SubjectType(row.subject_type)
    return TokenRow(row.hash, row.family, row.kind, row.subject_id, kind, row.expires_at, row.created_at)


def add_token(
    connection: Connection,
    digest: str,
    *,
    family: str,
    kind: str,
    subject_id: str,
    subject_type: str,
    now: Instant,
    expires_at: int | None,
) -> None:
    connection.execute(
        insert(tokens).values(
            hash=digest,
            family=family,
            kind=kind,
            subject_id=subject_id,
            subject_type=subject_type,
            created_at=now,
            expires_at=expires_at,
        )
    )


def revoke_access_tokens(connection: Connection) -> None:
    """All that were signed. Sessions go on with their refresh tokens, and browsers with their cookies."""
    connection.execute(delete(tokens).where(tokens.c.kind == ACCESS))


def spend_token(connection: Connection, digest: str, now: Instant) -> None:
    """Of a refresh token: it is good for nothing any more, but known, so that it is noticed when it is shown again."""
    spent = update(tokens).where(tokens.c.hash == digest).values(kind=SPENT, created_at=now)
    connection.execute(same_callers(spent))  # a refresh token, which makes no caller


def revoke_family(connection: Connection, family: str) -> None:
    """End a session: everything that came of one sign-in."""
    connection.execute(delete(tokens).where(tokens.c.family == family))
    connection.execute(delete(sessions).where(sessions.c.id == family))


def revoke_subject(connection: Connection, subject_id: str) -> None:
    """End all sessions of a user or program."""
    connection.execute(delete(tokens).where(tokens.c.subject_id == subject_id))
    connection.execute(delete(sessions).where(sessions.c.subject_id == subject_id))


def revoke_others(connection: Connection, kept: TokenRow) -> None:
    """The same, but for one token with its session."""
    subject = kept.subject_id
    connection.execute(delete(tokens).where(tokens.c.subject_id == subject, tokens.c.hash != kept.hash))
    connection.execute(delete(sessions).where(sessions.c.subject_id == subject, sessions.c.id != kept.family))


def drop_expired(connection: Connection, now: Instant, most: int) -> int:
    """Forget tokens that have expired; says how many went."""
    old = select(tokens.c.hash).where(tokens.c.expires_at < now).limit(most)
    return connection.execute(same_callers(delete(tokens).where(tokens.c.hash.in_(old)))).rowcount


def grants(connection: Connection, subject: str, kind: SubjectType) -> tuple[Grant, ...]:
    """The roles that a subject has: its own, and of a user also those of their groups; each once."""
    rows = _OWN.rows(connection, {"subject": subject, "type": kind.value})
    if kind is SubjectType.USER:
        rows += _OF_GROUPS.rows(connection, {"subject": subject})
    return tuple(dict.fromkeys(_grant(row) for row in rows))


def own_grants(connection: Connection, subject: str, kind: SubjectType) -> tuple[Grant, ...]:
    """The roles that were given to the subject itself."""
    return tuple(_grant(row) for row in _OWN.rows(connection, {"subject": subject, "type": kind.value}))


def grants_by_token(connection: Connection, digest: str) -> frozenset[Grant] | None:
    """The roles of the subject with this token; None: the token was revoked."""
    row = _SUBJECT_BY_TOKEN.one(connection, {"hash": digest})
    if row is None:
        return None
    return (
        frozenset()
        if row.subject_type == "cluster"
        else frozenset(grants(connection, row.subject_id, SubjectType(row.subject_type)))
    )


def _grant(row: Any) -> Grant:
    return Grant(row.role, permitted(row.role, row.permissions, row.enabled), ScopeType(row.scope_type), row.scope_id)


def grants_of_all(connection: Connection) -> list[tuple[SubjectType, str, Grant]]:
    """Every role that was given, with the type and the id of its subject; a group's id is its name."""
    query = _GRANTED.add_columns(access_rules.c.subject_type, access_rules.c.subject_id)
    joined = query.select_from(access_rules.outerjoin(roles, roles.c.key == access_rules.c.role))
    return [(SubjectType(row.subject_type), row.subject_id, _grant(row)) for row in connection.execute(joined)]


def groups(connection: Connection, user_id: str) -> tuple[str, ...]:
    """The groups of a user, by name."""
    query = select(user_groups.c.group_name).where(user_groups.c.user_id == user_id)
    return tuple(sorted(connection.execute(query).scalars()))


def groups_of_all(connection: Connection) -> dict[str, list[str]]:
    """The groups of every user who has any."""
    found: dict[str, list[str]] = {}
    for row in connection.execute(select(user_groups).order_by(user_groups.c.group_name)):
        found.setdefault(row.user_id, []).append(row.group_name)
    return found


def set_groups(connection: Connection, user_id: str, names: Iterable[str]) -> bool:
    """Replace the groups of a user with what the identity provider says; whether they changed.

    Names are at most 256 characters long.
    """
    wanted, there = set(names), set(groups(connection, user_id))
    table, gone, new = user_groups.c, sorted(there - wanted), sorted(wanted - there)
    if gone:
        where = (table.user_id == user_id) & table.group_name.in_(gone)
        connection.execute(delete(user_groups).where(where))
    if new:
        connection.execute(insert(user_groups), [{"user_id": user_id, "group_name": name} for name in new])
    return bool(gone or new)


def subject_name(connection: Connection, row: TokenRow) -> str:
    """Of the subject with this token, as it is shown."""
    assert row.subject_type is not None
    return name_of(connection, row.subject_id, row.subject_type)


def name_of(connection: Connection, subject_id: str, subject_type: SubjectType) -> str:
    """Of a user or program, as it is shown; empty: it was deleted."""
    if subject_type is SubjectType.USER:
        known = user(connection, subject_id)
        return known.email if known is not None else ""
    app = application(connection, subject_id)
    return app.name if app is not None else ""


def user_by_email(connection: Connection, email: str) -> UserRow | None:
    return _user(connection.execute(select(users).where(users.c.email == normal_email(email))).one_or_none())


def user(connection: Connection, user_id: str) -> UserRow | None:
    return _user(connection.execute(select(users).where(users.c.id == user_id)).one_or_none())


def all_users(connection: Connection, limit: int | None = None) -> list[UserRow]:
    """By email address."""
    rows = connection.execute(select(users).order_by(users.c.email).limit(limit))
    return [each for row in rows if (each := _user(row)) is not None]


def installed_at(connection: Connection) -> int:
    """When the first user was made."""
    return int(connection.execute(select(func.min(users.c.created_at))).scalar_one() or 0)


def user_count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(users)).scalar_one())


def add_user(connection: Connection, row: UserRow) -> None:
    connection.execute(
        insert(users).values(
            id=row.id,
            email=row.email,
            password_hash=row.password_hash,
            must_change=row.must_change,
            first_password=row.first_password,
            created_at=row.created_at,
            created_by=row.created_by,
            updated_at=row.updated_at,
            last_login_at=row.last_login_at,
            identity_provider=row.identity_provider,
            disabled=row.disabled,
        )
    )


def change_user(connection: Connection, user_id: str, **values: Any) -> None:
    connection.execute(update(users).where(users.c.id == user_id).values(**values))


def note_login(connection: Connection, user_id: str, now: Instant) -> None:
    connection.execute(same_callers(update(users).where(users.c.id == user_id).values(last_login_at=now)))


def set_password(
    connection: Connection, user_id: str, password_hash: str, *, must_change: bool, first_password: bool = False
) -> None:
    values = {"password_hash": password_hash, "must_change": must_change, "first_password": first_password}
    connection.execute(update(users).where(users.c.id == user_id).values(**values))


def delete_user(connection: Connection, user_id: str) -> None:
    connection.execute(delete(users).where(users.c.id == user_id))
    connection.execute(delete(access_keys).where(access_keys.c.owner == user_id))
    connection.execute(delete(user_groups).where(user_groups.c.user_id == user_id))
    connection.execute(delete(page_preferences).where(page_preferences.c.user_id == user_id))
    connection.execute(delete(provider_accounts).where(provider_accounts.c.user_id == user_id))
    for table in (subscriptions, webhooks, notifications):
        connection.execute(delete(table).where(table.c.owner == user_id))
    delete_rules_of_subject(connection, SubjectType.USER, user_id)
    revoke_subject(connection, user_id)


def first_password_stands(connection: Connection) -> bool:
    """Whether an account still has the password that it was made with."""
    return connection.execute(select(users.c.id).where(users.c.first_password).limit(1)).first() is not None


def application(connection: Connection, app_id: str) -> Row[Any] | None:
    return connection.execute(select(applications).where(applications.c.id == app_id)).one_or_none()


def application_by_name(connection: Connection, name: str) -> Row[Any] | None:
    return connection.execute(select(applications).where(applications.c.name == name)).one_or_none()


def delete_application(connection: Connection, app_id: str, kind: SubjectType = SubjectType.APP) -> None:
    connection.execute(delete(applications).where(applications.c.id == app_id))
    connection.execute(delete(access_keys).where(access_keys.c.owner == app_id))
    delete_rules_of_subject(connection, kind, app_id)
    revoke_subject(connection, app_id)


def all_rules(connection: Connection) -> list[Row[Any]]:
    """In the order in which they were made."""
    return list(connection.execute(select(access_rules).order_by(access_rules.c.number)))


def subject_names(connection: Connection, ids: Iterable[str]) -> dict[str, str]:
    """Email addresses of users and names of applications, by id."""
    wanted = list(ids)
    found: dict[str, str] = {}
    for start in range(0, len(wanted), NAMES_AT_ONCE):
        part = wanted[start : start + NAMES_AT_ONCE]
        found |= {row.id: row.email for row in connection.execute(select(users).where(users.c.id.in_(part)))}
        found |= {
            row.id: row.name for row in connection.execute(select(applications).where(applications.c.id.in_(part)))
        }
    return found


def rules_of(connection: Connection, subject: str, kind: str) -> list[Row[Any]]:
    """The rules of a subject: its own, and of a user also those of their groups."""
    own = (access_rules.c.subject_id == subject) & (access_rules.c.subject_type == kind)
    if kind == SubjectType.USER.value:
        named = access_rules.c.subject_id.in_(groups(connection, subject))
        own = own | (named & (access_rules.c.subject_type == SubjectType.GROUP.value))
    query = select(access_rules).where(own).order_by(access_rules.c.created_at, access_rules.c.number)
    return list(connection.execute(query))


def rule(connection: Connection, rule_id: str) -> Row[Any] | None:
    """The rule of this id or number."""
    is_number = rule_id.isascii() and rule_id.isdigit() and len(rule_id) <= NUMBER_DIGITS_MAX
    where = access_rules.c.number == int(rule_id) if is_number else access_rules.c.id == rule_id
    return connection.execute(select(access_rules).where(where)).one_or_none()


def add_rule(
    connection: Connection,
    rule_id: str,
    subject_id: str,
    subject_type: SubjectType,
    grant: Grant,
    now: Instant,
    by: str,
) -> None:
    connection.execute(
        insert(access_rules).values(
            id=rule_id,
            subject_id=subject_id,
            subject_type=subject_type.value,
            role=grant.role,
            scope_type=grant.scope_type.value,
            scope_id=grant.scope_id,
            created_at=now,
            created_by=by,
            number=next_number(connection, ACCESS_RULES),
        )
    )


def delete_rules_of_subject(connection: Connection, kind: SubjectType, subject: str) -> None:
    where = (access_rules.c.subject_type == kind.value) & (access_rules.c.subject_id == subject)
    connection.execute(delete(access_rules).where(where))


def delete_rule(connection: Connection, rule_id: str) -> None:
    connection.execute(delete(access_rules).where(access_rules.c.id == rule_id))


def delete_rules_of_scope(connection: Connection, scope_type: ScopeType, scope_id: str) -> None:
    """When the name of a deleted scope is used again, roles over the former one must not apply."""
    where = (access_rules.c.scope_type == scope_type.value) & (access_rules.c.scope_id == scope_id)
    connection.execute(delete(access_rules).where(where))


def has_other_administrator(connection: Connection, rule_id: str | None = None, subject: str | None = None) -> bool:
    """Whether an administrator is left when this rule or this subject is gone.

    One who can sign in with a password of this installation: an identity provider may be unreachable.
    """
    query = (
        select(access_rules.c.id)
        .join(users, users.c.id == access_rules.c.subject_id)
        .where(
            access_rules.c.role == ADMINISTRATOR,
            access_rules.c.scope_type == ScopeType.TENANT.value,
            access_rules.c.subject_type == SubjectType.USER.value,
            users.c.identity_provider.is_(None),
            users.c.disabled.is_(False),
        )
    )
    if rule_id is not None:
        query = query.where(access_rules.c.id != rule_id)
    if subject is not None:
        query = query.where(access_rules.c.subject_id != subject)
    return connection.execute(query.limit(1)).first() is not None


def is_administrator(connection: Connection, user_id: str) -> bool:
    """Whether a user may administer everything."""
    held = grants(connection, user_id, SubjectType.USER)
    return any(each.role == ADMINISTRATOR and each.scope_type is ScopeType.TENANT for each in held)


def oldest_administrator(connection: Connection) -> UserRow | None:
    rules = (
        (access_rules.c.subject_id == users.c.id)
        & (access_rules.c.subject_type == SubjectType.USER.value)
        & (access_rules.c.role == ADMINISTRATOR)
        & (access_rules.c.scope_type == ScopeType.TENANT.value)
    )
    query = (
        select(users)
        .join(access_rules, rules)
        .where(users.c.disabled.is_(False))
        .order_by(users.c.created_at, users.c.id)
        .limit(1)
    )
    return _user(connection.execute(query).first())


def _user(row: Row[Any] | None) -> UserRow | None:
    if row is None:
        return None
    return UserRow(
        row.id,
        row.email,
        row.password_hash,
        row.must_change,
        row.first_password,
        row.created_at,
        row.created_by,
        row.updated_at,
        row.last_login_at,
        row.identity_provider,
        row.disabled,
    )
