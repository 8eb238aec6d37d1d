"""Which user an account of an identity provider is.

An account is known by the provider's own ID for it. A user is made when it signs in for the first time. If there is a
user with the same email address already, the account is not taken for that user: a provider where people choose their
address would hand out every local account. An administrator can link the two.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request

from fairpool.control import audit_changes
from fairpool.control.passwords import NO_PASSWORD
from fairpool.control.plane import ActionResult, Caller, Plane, entry
from fairpool.control.provider_identity import ProviderIdentity
from fairpool.control.store import access as access_store
from fairpool.control.store import audit as audit_store
from fairpool.control.store import identity_providers as store
from fairpool.control.store.database import Connection
from fairpool.control.store.recording import recorded
from fairpool.model.problem import Problem


def admit(
    connection: Connection, plane: Plane, alias: str, identity: ProviderIdentity
) -> access_store.UserRow | Problem:
    """The user who signs in with this account, as the provider describes it now."""
    account = store.account(connection, alias, identity.subject)
    user = access_store.user(connection, account.user_id) if account is not None else None
    if user is None:
        if access_store.user_by_email(connection, identity.email) is not None:
            return _taken(alias, identity)
        user = access_store.UserRow(
            str(uuid.uuid4()),
            identity.email,
            NO_PASSWORD,
            must_change=False,
            first_password=False,
            created_at=plane.now(),
            created_by=alias,
            identity_provider=alias,
        )
        access_store.add_user(connection, user)
        store.put_account(connection, alias, identity.subject, user.id, identity.unix.text(), plane.now())
    if user.disabled:
        return Problem("idp.disabled", f"the user {user.email} is disabled here", "ask an administrator")
    remember(connection, plane, alias, identity, user.id)
    return user


def remember(connection: Connection, plane: Plane, alias: str, identity: ProviderIdentity, user_id: str) -> None:
    """What the provider says about a user by now."""
    store.confirm_account(connection, alias, identity.subject, identity.unix.text(), plane.now())
    access_store.set_groups(connection, user_id, identity.groups)


@contextmanager
def changes_noted(connection: Connection, request: Request, plane: Plane, alias: str, subject: str) -> Iterator[None]:
    """An entry in the audit log if what is done within makes the user of this account, or changes their groups."""
    with recorded() as recording:
        yield
    changes = recording.changes(connection)
    account = store.account(connection, alias, subject)
    user = access_store.user(connection, account.user_id) if account is not None else None
    if not changes or user is None:
        return
    is_new = any(each.table == "users" and each.before is None for each in changes)
    done = ActionResult(
        action="create" if is_new else "update", entity_type="user", entity_id=user.id, entity_name=user.email
    )
    provider = Caller(id="", name=alias, kind="app")
    audit_store.add(connection, entry(request, provider, done, plane.now(), audit_changes.as_text(changes)))


def _taken(alias: str, identity: ProviderIdentity) -> Problem:
    what = f"there is a user {identity.email} already, who is not linked to this account of {alias}"
    fix = (
        "ask an administrator to link them: "
        f"runai-adm identity-provider link {alias} {identity.email} --subject {identity.subject}"
    )
    return Problem("idp.email_taken", what, fix)
