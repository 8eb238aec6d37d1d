"""What a command may import: no models of the wire, no YAML, no TLS: each costs more than the rest of a command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from fairpool.api import access, audit, nodes, organization, overview, uploads, workloads
from fairpool.api.record import Record, camel
from fairpool.api.wire import Answer
from tests.end_to_end.runai_server import Server, real_environment, serving

HEAVY = ("pydantic", "pydantic_core", "yaml", "rich", "httpx2", "ssl", "email", "http", "msgspec", "numpy", "asyncio")
PROGRAM = """
import sys
from fairpool.cli.{program}.main import main
try:
    main({arguments!r}, prog_name="it")
finally:
    print("\\nimported:", *sorted(set(sys.modules) & set({heavy!r})))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("runai")) as found:
        found.settle("team-a")
        found.typed("runai submit first -i python")
        found.runs("team-a", "first")
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("runai", "--help"),
        ("runai", "submit --help"),
        ("runai", "submit -i python -g 0.5 -- python train.py"),
        ("runai", "list"),
        ("runai", "list projects"),
        ("runai", "list nodes -o json"),
        ("runai", "describe job first"),
        ("runai", "logs first"),
        ("runai", "why first"),
        ("runai", "top"),
        ("runai", "suspend first"),
        ("runai", "whoami"),
        ("runai", "training list"),
        ("runai", "training submit --help"),
        ("runai", "training submit -i python --gpu-portion-request 0.5 -- python train.py"),
        ("runai", "context list"),
        ("adm", "--help"),
        ("adm", "application list"),
        ("adm", "setting list"),
        ("adm", "project list"),
        ("adm", "project update team-a --gpu-quota 5"),
        ("adm", "user list"),
    ],
)
def test_a_command_imports_nothing_heavy(server: Server, program: str, line: str) -> None:
    source = PROGRAM.format(program=program, arguments=line.split(), heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", source], env=real_environment(server), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1].strip() == "imported:", done.stdout


def _answers() -> list[type[BaseModel]]:
    """Every model that an answer is made of."""
    modules = (access, audit, nodes, organization, overview, uploads, workloads)
    return [
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, BaseModel) and each is not Answer
    ]


def test_each_field_of_an_answer_can_be_read_from_a_record() -> None:
    """By its name in the models, which are the static types of records."""
    for model in _answers():
        for name, field in model.model_fields.items():
            assert (field.alias or name) in (name, camel(name)), (model, name)
            assert not hasattr(dict, name) or not issubclass(model, Answer), f"{model}.{name} is a method of dict"


def test_a_record_reads_by_the_names_of_the_models() -> None:
    record = Record({"createdAt": "now", "http_method": "GET", "labels": {"a": "b"}})
    assert (record.created_at, record.http_method, record.labels["a"], record.silent_since) == ("now", "GET", "b", None)
