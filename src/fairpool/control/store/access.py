"""SQL for users, applications, access rules and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update
from sqlalchemy.engine import Row

from fairpool.api.access import RoleName, ScopeType, SubjectType, normal_email
from fairpool.control.rbac import Grant
from fairpool.control.store.compiled import Compiled
from fairpool.control.store.tables import access_keys, access_rules, applications, sessions, tokens, users
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


SPENT = "spent"

_TOKEN = select(tokens).where(tokens.c.hash == bindparam("hash"))
_GRANTS = select(access_rules).where(
    access_rules.c.subject_id == bindparam("subject"), access_rules.c.subject_type == bindparam("type")
)
_GRANTS_BY_TOKEN = Compiled(
    select(access_rules.c.role, access_rules.c.scope_type, access_rules.c.scope_id)
    .select_from(
        tokens.outerjoin(
            access_rules,
            (access_rules.c.subject_id == tokens.c.subject_id) & (access_rules.c.subject_type == tokens.c.subject_type),
        )
    )
    .where(tokens.c.hash == bindparam("hash"))
)


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


def spend_token(connection: Connection, digest: str, now: Instant) -> None:
    """It is good for nothing any more, but known, so that it is noticed when it is shown again."""
    connection.execute(update(tokens).where(tokens.c.hash == digest).values(kind=SPENT, created_at=now))


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


def drop_expired(connection: Connection, now: Instant) -> None:
    connection.execute(delete(tokens).where(tokens.c.expires_at < now))


def grants(connection: Connection, subject: str, kind: SubjectType) -> tuple[Grant, ...]:
    """The roles that a subject was given."""
    rows = connection.execute(_GRANTS, {"subject": subject, "type": kind.value})
    return tuple(Grant(RoleName(row.role), ScopeType(row.scope_type), row.scope_id) for row in rows)


def grants_by_token(connection: Connection, digest: str) -> frozenset[Grant] | None:
    """The roles of the subject with this token; None: the token was revoked."""
    rows = _GRANTS_BY_TOKEN.rows(connection, {"hash": digest})
    if not rows:
        return None
    given = [row for row in rows if row.role is not None]
    return frozenset(Grant(RoleName(row.role), ScopeType(row.scope_type), row.scope_id) for row in given)


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


def all_users(connection: Connection, offset: int, limit: int) -> list[UserRow]:
    rows = connection.execute(select(users).order_by(users.c.email).offset(offset).limit(limit))
    return [each for row in rows if (each := _user(row)) is not None]


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
        )
    )


def set_password(
    connection: Connection, user_id: str, password_hash: str, *, must_change: bool, first_password: bool = False
) -> None:
    values = {"password_hash": password_hash, "must_change": must_change, "first_password": first_password}
    connection.execute(update(users).where(users.c.id == user_id).values(**values))


def delete_user(connection: Connection, user_id: str) -> None:
    connection.execute(delete(users).where(users.c.id == user_id))
    connection.execute(delete(access_rules).where(access_rules.c.subject_id == user_id))
    connection.execute(delete(access_keys).where(access_keys.c.owner == user_id))
    revoke_subject(connection, user_id)


def first_password_stands(connection: Connection) -> bool:
    """Whether an account still has the password that it was made with."""
    return connection.execute(select(users.c.id).where(users.c.first_password).limit(1)).first() is not None


def application(connection: Connection, app_id: str) -> Row[Any] | None:
    return connection.execute(select(applications).where(applications.c.id == app_id)).one_or_none()


def application_by_name(connection: Connection, name: str) -> Row[Any] | None:
    return connection.execute(select(applications).where(applications.c.name == name)).one_or_none()


def all_applications(connection: Connection, offset: int, limit: int) -> list[Row[Any]]:
    return list(connection.execute(select(applications).order_by(applications.c.name).offset(offset).limit(limit)))


def add_application(connection: Connection, app_id: str, name: str, secret_hash: str, now: Instant) -> None:
    connection.execute(insert(applications).values(id=app_id, name=name, secret_hash=secret_hash, created_at=now))


def set_secret(connection: Connection, app_id: str, secret_hash: str) -> None:
    connection.execute(update(applications).where(applications.c.id == app_id).values(secret_hash=secret_hash))


def delete_application(connection: Connection, app_id: str) -> None:
    connection.execute(delete(applications).where(applications.c.id == app_id))
    connection.execute(delete(access_rules).where(access_rules.c.subject_id == app_id))
    revoke_subject(connection, app_id)


def rules(connection: Connection, offset: int, limit: int, subject: str | None = None) -> list[Row[Any]]:
    query = select(access_rules).order_by(access_rules.c.created_at, access_rules.c.id).offset(offset).limit(limit)
    if subject is not None:
        query = query.where(access_rules.c.subject_id == subject)
    return list(connection.execute(query))


def rule(connection: Connection, rule_id: str) -> Row[Any] | None:
    return connection.execute(select(access_rules).where(access_rules.c.id == rule_id)).one_or_none()


def rule_count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(access_rules)).scalar_one())


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
            role=grant.role.value,
            scope_type=grant.scope_type.value,
            scope_id=grant.scope_id,
            created_at=now,
            created_by=by,
        )
    )


def delete_rule(connection: Connection, rule_id: str) -> None:
    connection.execute(delete(access_rules).where(access_rules.c.id == rule_id))


def delete_rules_of_scope(connection: Connection, scope_type: ScopeType, scope_id: str) -> None:
    """When the name of a deleted scope is used again, roles over the former one must not apply."""
    where = (access_rules.c.scope_type == scope_type.value) & (access_rules.c.scope_id == scope_id)
    connection.execute(delete(access_rules).where(where))


def has_other_administrator(connection: Connection, rule_id: str | None = None, subject: str | None = None) -> bool:
    """Whether an administrator is left when this rule or this subject is gone."""
    query = select(access_rules.c.id).where(
        access_rules.c.role == RoleName.ADMINISTRATOR.value,
        access_rules.c.scope_type == ScopeType.TENANT.value,
        access_rules.c.subject_type == SubjectType.USER.value,
    )
    if rule_id is not None:
        query = query.where(access_rules.c.id != rule_id)
    if subject is not None:
        query = query.where(access_rules.c.subject_id != subject)
    return connection.execute(query.limit(1)).first() is not None


def is_administrator(connection: Connection, user_id: str) -> bool:
    """Whether a user may administer everything."""
    return Grant(RoleName.ADMINISTRATOR, ScopeType.TENANT) in grants(connection, user_id, SubjectType.USER)


def oldest_administrator(connection: Connection) -> UserRow | None:
    rules = (
        (access_rules.c.subject_id == users.c.id)
        & (access_rules.c.subject_type == SubjectType.USER.value)
        & (access_rules.c.role == RoleName.ADMINISTRATOR.value)
        & (access_rules.c.scope_type == ScopeType.TENANT.value)
    )
    query = select(users).join(access_rules, rules).order_by(users.c.created_at, users.c.id).limit(1)
    return _user(connection.execute(query).first())


def _user(row: Row[Any] | None) -> UserRow | None:
    if row is None:
        return None
    return UserRow(row.id, row.email, row.password_hash, row.must_change, row.first_password, row.created_at)
