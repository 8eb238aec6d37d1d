"""Tables with a row for each member of an enumeration: what a new kind, role or verdict must be added to.

mypy does not check that a mapping has every key, so a missing row would otherwise be a KeyError at run time.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from fairpool.api import client
from fairpool.api.workload_spec import Kind
from fairpool.cli.runai import job_file
from fairpool.control import admission, builtin_roles, classic, rbac, template_values, workloads
from fairpool.model.precedence import KIND_RULES
from fairpool.model.spec import RESTART_RULES
from fairpool.model.workload import WorkloadKind
from fairpool.scheduler import explain
from fairpool.scheduler.decision import Why
from fairpool.simulation import control_driver

PLAN_JSON = Path(__file__).parents[2] / "docs" / "reference" / "plan-json.md"


def test_every_kind_has_its_rules() -> None:
    assert set(KIND_RULES) == set(RESTART_RULES) == set(control_driver.KINDS) == set(WorkloadKind)
    assert set(admission.KINDS.values()) == set(WorkloadKind)


def test_every_kind_of_the_api_can_be_submitted_and_listed() -> None:
    kinds = set(Kind)
    assert set(admission.KINDS) == set(admission.KIND_OF_SUBMIT.values()) == set(workloads.KINDS.values()) == kinds
    assert set(template_values.SPECS) == kinds
    assert set(client.PATHS) == set(job_file.KINDS) == set(classic.TYPES) == {kind.value for kind in kinds}


def test_every_action_needs_cells_of_the_grid_or_stands_for_actions_that_do() -> None:
    assert set(rbac.GRID) | set(rbac.TOGETHER) == rbac.EVERYTHING
    assert not set(rbac.GRID) & set(rbac.TOGETHER)
    assert all(set(parts) <= set(rbac.GRID) for parts in rbac.TOGETHER.values())


def test_every_built_in_role_can_be_named_and_permits_something() -> None:
    for key, role in builtin_roles.BUILT_IN.items():
        assert {builtin_roles.built_in(name) for name in (key, role.name, str(role.id), *role.also)} == {role}
        assert rbac.actions_of(role.cells), key
        assert not rbac.unused_cells(role.cells), key


def test_every_verdict_has_a_sentence_and_is_documented() -> None:
    kinds = get_args(Why)
    assert [kind.__name__ for kind in kinds if kind not in explain._say.registry] == []
    codes = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower() for kind in kinds}
    assert codes - set(re.findall(r"`([a-z_]+)`", PLAN_JSON.read_text(encoding="utf-8"))) == set()
