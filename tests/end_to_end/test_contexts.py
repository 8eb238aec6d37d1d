"""`runai context`: one person, several control planes."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairpool.cli.runai.configuration import Configuration, Context
from fairpool.control.settings import FIRST_PASSWORD, FIRST_USER
from tests.end_to_end.runai_server import Server, serving

pytestmark = pytest.mark.slow


@dataclass
class Person:
    """A terminal with no variable that names a server."""

    server: Server
    folder: Path
    name: str

    @property
    def config(self) -> Path:
        return self.folder / self.name / "config"

    def typed(self, line: str, stdin: str = "", **environment: str) -> str:
        return self.server.typed(line, person=self.name, stdin=stdin, **{"FAIRPOOL_SERVER": "", **environment})

    def refused(self, line: str, **environment: str) -> str:
        return self.server.refused(line, person=self.name, **{"FAIRPOOL_SERVER": "", **environment})

    def err(self, line: str, **environment: str) -> str:
        return self.server.type(line, person=self.name, **{"FAIRPOOL_SERVER": "", **environment}).err


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    with serving(tmp_path_factory.mktemp("east")) as east, serving(tmp_path_factory.mktemp("west")) as west:
        east.settle("east-team")
        west.settle("west-team")
        east.typed("runai submit in-east -i img")
        west.typed("runai submit in-west -i img")
        yield east, west


@pytest.fixture
def person(servers: tuple[Server, Server], request: pytest.FixtureRequest) -> Person:
    return Person(servers[0], servers[0].folder, request.node.name[:60])


def add(person: Person, servers: tuple[Server, Server]) -> None:
    """Both contexts, signed in; east in use."""
    for name, server in zip(("east", "west"), servers, strict=True):
        person.typed(f"runai context set {name} --server {server.address} --project {name}-team")
        person.typed(f"runai login --context {name} -u {FIRST_USER}", stdin=f"{FIRST_PASSWORD}\n")
    person.typed("runai context use east")


def test_commands_go_to_the_context_in_use(person: Person, servers: tuple[Server, Server]) -> None:
    add(person, servers)
    assert person.typed("runai list -o name") == "in-east\n"
    assert person.typed("runai context use west") == "Context west is now in use\n"
    assert person.typed("runai list -o name") == "in-west\n"
    assert person.typed("runai list -o name --context east") == "in-east\n"
    assert person.typed("runai list -o name", FAIRPOOL_CONTEXT="east") == "in-east\n"
    assert person.typed(f"runai list -o name -p east-team --server {servers[0].address}") == "in-east\n"
    assert f"Server: {servers[1].address}" in person.typed("runai whoami")
    assert person.typed("runai-adm project list -o name") == "west-team\n"


def test_a_default_project_belongs_to_the_context(person: Person, servers: tuple[Server, Server]) -> None:
    add(person, servers)
    servers[0].admin.create_project({"name": "second", "resources": []})
    person.typed(f"runai context set other --server {servers[0].address}")
    person.typed("runai config project second --context other")
    assert "second (default)" in person.typed("runai list projects --context other")
    assert "east-team (default)" in person.typed("runai list projects")
    person.typed("runai context set east --project second")
    assert "second (default)" in person.typed("runai list projects")


def test_contexts_are_listed_with_the_one_in_use(person: Person, servers: tuple[Server, Server]) -> None:
    add(person, servers)
    lines = person.typed("runai context").splitlines()
    assert lines[0].split() == ["CONTEXT", "SERVER", "PROJECT", "USER"]
    assert lines[1].split() == ["east", "(current)", servers[0].address, "east-team", FIRST_USER]
    assert lines[2].split() == ["west", servers[1].address, "west-team", FIRST_USER]
    said = json.loads(person.typed("runai context list -o json"))
    assert [(each["name"], each["current"]) for each in said] == [("east", True), ("west", False)]
    assert person.typed("runai context list -o name") == "east\nwest\n"


def test_the_files_are_for_their_owner_alone_and_hold_no_password(
    person: Person, servers: tuple[Server, Server]
) -> None:
    add(person, servers)
    for file in ("config.json", "credentials.json"):
        assert stat.S_IMODE((person.config / file).stat().st_mode) == 0o600
        assert FIRST_PASSWORD not in (person.config / file).read_text()
    assert "oken" not in (person.config / "config.json").read_text()


def test_a_configuration_without_contexts_works_as_before(person: Person, servers: tuple[Server, Server]) -> None:
    person.config.mkdir(parents=True)
    older = {"server": servers[0].address, "projects": {servers[0].address: "east-team"}}
    (person.config / "config.json").write_text(json.dumps(older))
    person.typed(f"runai login -u {FIRST_USER}", stdin=f"{FIRST_PASSWORD}\n")
    assert person.typed("runai list -o name") == "in-east\n"
    kept = json.loads((person.config / "config.json").read_text())
    assert kept == older


def test_a_login_elsewhere_leaves_the_context(person: Person, servers: tuple[Server, Server]) -> None:
    add(person, servers)
    answer = person.server.type(
        f"runai login -u {FIRST_USER} --server {servers[1].address}",
        person=person.name,
        stdin=f"{FIRST_PASSWORD}\n",
        FAIRPOOL_SERVER="",
    )
    assert answer.err == "Context east is no longer in use. To return to it: runai context use east\n"
    assert person.typed("runai list -o name -p west-team") == "in-west\n"
    assert "(current)" not in person.typed("runai context")


def test_variables_that_win_are_told(person: Person, servers: tuple[Server, Server]) -> None:
    add(person, servers)
    warning = "is set, so commands in this shell do not use context east."
    assert f"Warning: FAIRPOOL_SERVER {warning}" in person.err("runai context use east", FAIRPOOL_SERVER="127.0.0.1:1")
    assert f"Warning: FAIRPOOL_LISTEN {warning}" in person.err("runai context", FAIRPOOL_LISTEN="127.0.0.1:1")
    assert f"Warning: FAIRPOOL_CONTEXT {warning}" in person.err("runai context use east", FAIRPOOL_CONTEXT="west")


def test_deleted_contexts_are_gone_and_their_logins_stay(person: Person, servers: tuple[Server, Server]) -> None:
    add(person, servers)
    said = person.server.type("runai context delete east west", person=person.name, FAIRPOOL_SERVER="")
    assert said.out == "Context east deleted\nContext west deleted\n"
    assert f"You are still signed in to {servers[0].address}" in said.err
    assert "There are no contexts." in person.err("runai context")
    assert Configuration(person.config).login(servers[0].address) is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("runai context use nowhere", "there is no context nowhere"),
        ("runai list --context eats", "Did you mean east?"),
        ("runai list --context east --server http://127.0.0.1:1", "--context and --server cannot be used together"),
        ("runai context set new", "context new is new and needs a server: add --server ADDRESS"),
        ("runai context set ../up --server http://a", "'../up' is not a valid name"),
        ("runai context set --server http://a -- -x", "'-x' is not a valid name"),
        ("runai context set new --server 'http://a b'", "is not a valid server address"),
        ("runai context delete east nowhere", "there is no context nowhere"),
        ("runai context delete", "NAMES... is missing"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    person: Person, servers: tuple[Server, Server], line: str, said: str
) -> None:
    add(person, servers)
    before = (person.config / "config.json").read_text()
    assert said in person.refused(line)
    assert (person.config / "config.json").read_text() == before


def test_contexts_of_other_releases_or_hands_do_no_harm(tmp_path: Path) -> None:
    wrong = {"contexts": {"a": 1, "b": {"server": 2}, "c": {"server": "http://c", "project": 3}}, "context": ["a"]}
    (tmp_path / "config.json").write_text(json.dumps(wrong))
    kept = Configuration(tmp_path)
    assert kept.contexts() == {"c": Context("c", "http://c")}
    assert kept.current_context() is None


def test_commands_at_once_lose_no_context(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: Configuration(tmp_path).set_context(Context(f"c{n}", "http://x")), range(40)))
    assert len(Configuration(tmp_path).contexts()) == 40


def test_names_of_contexts_are_completed(person: Person, servers: tuple[Server, Server]) -> None:
    add(person, servers)
    said = {"_RUNAI_COMPLETE": "bash_complete", "COMP_WORDS": "runai context use e", "COMP_CWORD": "3"}
    assert person.typed("runai", **said) == "plain,east\n"
