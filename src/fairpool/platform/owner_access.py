"""Access for the user who runs the server: signing in without a password, and resetting passwords.

Requested over the admin socket, which only that user can open. Where pods run as the same user they could open it too,
so there nothing is granted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fairpool.control import owner, projects, users
from fairpool.control.app import create_app
from fairpool.control.settings import FIRST_USER, Settings
from fairpool.control.store.unavailable import Unavailable
from fairpool.model.problem import Problem
from fairpool.platform.admin_socket import Handler
from fairpool.platform.data_directory import DataDirectory

FIRST_PROJECT = "demo"

Welcome = Mapping[str, Any]


class OwnerAccess:
    """Handlers of the admin socket; `state` is that of the control plane's application."""

    def __init__(self, state: Any, not_isolated: str) -> None:
        """`not_isolated`: why pods are not isolated from the user who runs the server; empty: they are."""
        self._state, self._not_isolated = state, not_isolated

    @property
    def handlers(self) -> dict[str, Handler]:
        return {"reset-password": self.reset_password, "welcome": self.welcome}

    async def welcome(self, question: Mapping[str, Any]) -> Welcome | Problem:
        """The owner signed in, a link for the browser, and the project that `runai` uses by default."""
        if self._not_isolated:
            return self._refused(f"start it with --first-password-file, then `runai login --user {FIRST_USER}`")
        if not question:
            return {}
        plane = self._state.plane
        session = await owner.owner_session(plane, [str(each) for each in question.get("holding", ())])
        link = await owner.new_link(plane)
        for each in (session, link):
            if isinstance(each, Problem):
                return each
        assert isinstance(session, owner.OwnerSession)
        names = [str(question.get("project", "")), FIRST_PROJECT]
        return {
            "user": session.user,
            "must_change_password": session.must_change_password,
            "first_password_ignored": self._state.first_password_ignored,
            "tokens": session.tokens.model_dump() if session.tokens is not None else None,
            "link": link,
            "project": await plane.read(lambda connection: projects.first_of(connection, names)),
        }

    async def reset_password(self, question: Mapping[str, Any]) -> Mapping[str, Any] | Problem:
        if self._not_isolated:
            return self._refused("reset the password while the server is stopped: fairpool down")
        try:
            return await _new_password(self._state, str(question.get("user") or FIRST_USER))
        except Unavailable as error:
            return error.problem

    def _refused(self, fix: str) -> Problem:
        what = f"pods are not isolated from your account on this machine ({self._not_isolated})"
        return Problem("access.not_isolated", what, fix)


def reset_password_offline(data_directory: DataDirectory, user: str, database: str = "") -> Mapping[str, Any] | Problem:
    """Reset a password while no server runs on the directory."""

    async def reset() -> Mapping[str, Any] | Problem:
        app = create_app(Settings(data=data_directory.root, database=database, cluster_name=""))
        async with app.router.lifespan_context(app):
            return await _new_password(app.state, user)

    try:
        return asyncio.run(reset())
    except Unavailable as error:
        return error.described


async def _new_password(state: Any, user: str) -> Mapping[str, Any] | Problem:
    made = await users.give_new_password(state.plane, state.passwords, user)
    return made if isinstance(made, Problem) else {"user": user, "password": made}
