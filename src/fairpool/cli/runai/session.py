"""Session of one command: server, login, default project; refusals of the server as failures."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from fairpool.api.client import Client, Refused, Unreachable
from fairpool.api.config_directory import config_directory
from fairpool.api.limits import NAME_PATTERN
from fairpool.api.loopback import JobListens
from fairpool.cli.failure import Failure, failure, meant
from fairpool.cli.runai.configuration import Configuration, Login, address
from fairpool.cli.runai.field_flags import refused_flag
from fairpool.cli.runai.flags import EVERY_KIND, GlobalOptions, KindFilter
from fairpool.model.problem import Problem

if TYPE_CHECKING:
    from fairpool.api.workloads import WorkloadItem

RENEW_BEFORE_S = 60
ACCESS_KEY_VARIABLE = "RUNAI_ACCESS_KEY"
"""CLIENT-ID:SECRET, for programs: each command signs in with it, and out when it ends."""
NAME = re.compile(NAME_PATTERN)
KIND_NOUNS = {
    "Workspace": "workspace",
    "Training": "training",
    "Distributed": "distributed training",
    "Inference": "inference",
}
NOT_SIGNED_IN = "User not authenticated, run the 'runai login' command."


def access_key_parts(key: str, where: str) -> tuple[str, str]:
    """Client id and secret of an access key, as `runai access-key create` prints it."""
    client_id, _, secret = key.strip().partition(":")
    if not client_id or not secret:
        raise failure("login.access_key", f"{where} is not an access key", "write CLIENT-ID:SECRET")
    return client_id, secret


class Session:
    """Configuration, server and client of one command."""

    def __init__(self, options: GlobalOptions) -> None:
        self.options = options
        self.configuration = Configuration(config_directory(options.config))
        self.context = self.configuration.context(options.context, options.server)
        self.server = address(self.context.server) if self.context else self.configuration.server(options.server)

    @property
    def default_project(self) -> str | None:
        return self.default("project")

    def default(self, noun: str) -> str | None:
        """The default `project` or `cluster`: that of the context in use, else of the server."""
        own: str = getattr(self.context, noun) if self.context else ""
        return own or self.configuration.default(noun, self.server)

    def set_default(self, noun: str, name: str) -> None:
        """For the context in use, else for the server."""
        if self.context:
            self.context = replace(self.context, **{noun: name})
            self.configuration.set_context(self.context)
        else:
            self.configuration.set_default(noun, self.server, name)

    def project(self) -> str:
        """By flag or by default; raises a failure if there is neither."""
        name = self.options.project or self.default_project
        if name:
            return name
        if self.configuration.login(self.server) is None and not os.environ.get(ACCESS_KEY_VARIABLE):  # comes first
            raise failure("access.not_signed_in", NOT_SIGNED_IN)
        what = "Define a project by --project flag, alternatively set a project as default"
        hint = "List projects: runai list projects. Set the default: runai config project NAME"
        raise failure("project.none", what, hint=hint)

    @contextmanager
    def connected(self, *, keeps_token: bool = False) -> Iterator[Client]:
        """A client that is signed in; refusals become failures. `keeps_token`: it is used after the command."""
        key = os.environ.get(ACCESS_KEY_VARIABLE, "")
        if not key:
            with self.logged_in() as client:
                yield client
            return
        with self.unsigned() as client:
            client.sign_in_application(*access_key_parts(key, ACCESS_KEY_VARIABLE))
            with nullcontext() if keeps_token else _signed_out(client):
                yield client

    @contextmanager
    def logged_in(self) -> Iterator[Client]:
        """The same, by the login that `runai login` kept."""
        login = self.configuration.login(self.server)
        if login is None:
            raise failure("access.not_signed_in", NOT_SIGNED_IN)
        with self.unsigned() as client:
            if login.refresh_token and login.expires_at < time.time() + RENEW_BEFORE_S:
                login = self._renewed(client)
            client.token = login.access_token
            try:
                yield client
            finally:
                client.token = None

    @contextmanager
    def unsigned(self) -> Iterator[Client]:
        """A client that is not signed in."""
        if self.options.loglevel == "debug":
            import logging

            logging.basicConfig(level=logging.DEBUG)
        with Client(self.server, socket=self.configuration.socket(self.server)) as client:
            try:
                yield client
            except Refused as refusal:
                raise Failure(self._problems(refusal), hint=self._hint(client, refusal)) from refusal
            except Unreachable as error:
                raise failure("server.away", *self._away(error)) from error

    def keep(self, user: str, client: Client, refresh_token: str | None, expires_in: int) -> None:
        """Remember a login."""
        login = Login(user, client.token or "", refresh_token or "", time.time() + expires_in)
        self.configuration.set_login(self.server, login)

    def _renewed(self, client: Client) -> Login:
        with self.configuration.locked():
            login = self.configuration.login(self.server)  # another command may have renewed it meanwhile
            if login is None:
                raise failure("access.not_signed_in", NOT_SIGNED_IN)
            if login.expires_at >= time.time() + RENEW_BEFORE_S:
                return login
            try:
                answer = client.renew(login.refresh_token)
            except Refused as refusal:
                if refusal.status != 401:
                    raise
                raise self._expired() from refusal
            fresh = Login(
                login.user,
                answer.access_token,
                answer.refresh_token or "",
                time.time() + answer.expires_in,
            )
            self.configuration.replace_login(self.server, fresh)
            return fresh

    def _expired(self) -> Failure:
        what = f"Your login at {self.server} has expired, run the 'runai login' command."
        return failure("access.not_signed_in", what)

    def _hint(self, client: Client, refusal: Refused) -> str:
        """For an unknown project: which may have been meant."""
        login = self.configuration.login(self.server)
        if login is None or not any(each.code == "project.unknown" for each in refusal.problems):
            return ""
        client.token = login.access_token
        try:
            return project_hint(self.options.project or "", [each.name for each in client.projects()])
        except (Refused, Unreachable):
            return ""

    def _problems(self, refusal: Refused) -> list[Problem]:
        said = [refused_flag(each.problem, each.field or "") for each in refusal.items]
        return [self._problem(each) for each in dict.fromkeys(said)]

    def _problem(self, problem: Problem) -> Problem:
        match problem.code:
            case "access.not_signed_in" if self.configuration.login(self.server) is not None:
                return self._expired().problems[0]
            case "access.not_signed_in":
                return Problem(problem.code, NOT_SIGNED_IN, "")
            case "access.password_must_change":
                return Problem(problem.code, problem.what, "run: runai password")
            case _:
                return problem

    def _away(self, error: Unreachable) -> tuple[str, str]:
        if isinstance(error, JobListens):
            what = (
                f"a program of a job (user {error.uid}) listens at {self.server} instead of Fairpool; nothing was sent"
            )
            return what, "ask an administrator to end that program and to start Fairpool"
        if not error.connected:
            return f"Fairpool does not answer at {self.server}", "start it with `make up` or `fairpool up`"
        return (
            f"Fairpool at {self.server} stopped answering ({error.reason})",
            "check whether the command took effect, then try again",
        )


@contextmanager
def _signed_out(client: Client) -> Iterator[None]:
    """End the client's session, unless the server cannot be reached."""
    try:
        yield
    except Unreachable:
        raise
    except BaseException:
        end_session(client)
        raise
    end_session(client)


def end_session(client: Client) -> None:
    """A session that ended by itself, or is not ended now, changes nothing about what the command did."""
    with suppress(Refused, Unreachable):
        client.sign_out()


def job(client: Client, project: str, name: str, kind: KindFilter = EVERY_KIND) -> WorkloadItem:
    """The job of this name, also one that is being deleted; a failure with a hint if there is none of this kind."""
    found = find_job(client, project, name)
    if found is None:
        raise unknown_job(client, project, name)
    if not kind.includes(found.type, found.distributed_framework):
        raise Failure([other_kind(found, kind)])
    return found


def other_kind(found: WorkloadItem, kind: KindFilter) -> Problem:
    """What is wrong with `runai training describe NAME` where NAME is a workspace."""
    noun = KIND_NOUNS.get(found.type, "workload")
    group = "training" if found.type == "Distributed" else noun
    article = "an" if noun.startswith("i") else "a"
    other = "an" if kind.noun.startswith("i") else "a"
    what = f"{found.name} is not {other} {kind.noun} but {article} {noun}"
    return Problem("job.other_kind", what, f"use `runai {group}` or `runai workload` instead")


def find_job(client: Client, project: str, name: str) -> WorkloadItem | None:
    """The same; None if there is none."""
    if not NAME.fullmatch(name) or not NAME.fullmatch(project):
        return None
    found = client.find_workload(project, name)
    if found is not None:
        return found
    return max(client.leaving_workloads(project, name), key=lambda each: each.created_at, default=None)


def unknown_job(client: Client, project: str, name: str) -> Failure:
    """The failure for a job that does not exist."""
    check_project(client, project)
    what = (
        f"The job {name} does not exist in project {project}. "
        "If the job exists in a different project, use -p <project name>."
    )
    page = client.workloads(filters=[f"projectName=={project}", "desiredPhase!=Deleted"], limit=500)
    names = [each.name for each in page.workloads]
    return failure("job.unknown", what, hint=meant(name, names))


def check_project(client: Client, project: str) -> None:
    """Raises a failure, with a hint, if the caller can see no such project."""
    names = [each.name for each in client.projects()]
    if project not in names:
        what = f"project {project} was not found. Please run 'runai list project' to view all available projects"
        raise failure("project.unknown", what, hint=project_hint(project, names))


def project_hint(project: str, names: list[str]) -> str:
    """Which project may have been meant; if there is none at all, how to create one."""
    if not names:
        return f"You have no access to any project. An administrator can create one: {new_project(project)}"
    return meant(project, names)


def new_project(name: str) -> str:
    return f"runai-adm project create {name if NAME.fullmatch(name) else 'NAME'} --gpu-quota 4"
