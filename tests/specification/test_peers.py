"""How pods of distributed training find each other: the variables of each framework, the host file, the ports."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairpool.agent.peers import Rendezvous, free_ports, hostfile, mpi_host_name, variables_of_peers
from fairpool.agent.state_directory import StateDirectory
from fairpool.cluster.gates import workers_have_started
from fairpool.cluster.outstanding_orders import start_order
from fairpool.model.observation import StartOrder
from fairpool.model.pod_record import Outcome
from fairpool.model.spec import DistributedRun, Framework, PodTemplate
from tests.pod_records import BOUND, ENDED, RUNNING, WAITING, record, spec

PLACES = {"home": "/home/pod", "support": "/support", "gang": "/gang"}
MPI = DistributedRun(framework=Framework.MPI, slots_per_worker=2)


def order_of(index: int, framework: Framework, pods: int = 3, **more: Any) -> StartOrder:
    """The order of one pod of a run with a leader, unless `leader` is None."""
    declared = spec(pods=pods, **{"leader": PodTemplate(), "distributed": DistributedRun(framework=framework), **more})
    pod_set = "default" if declared.leader is None else "leader" if index == 0 else "worker"
    return start_order(record(f"a-{index}-0", BOUND, on="n1", pod_set=pod_set), declared)


def variables(order: StartOrder, *ports: int) -> dict[str, str]:
    return variables_of_peers(order, Rendezvous(ports), **PLACES)


def test_a_chief_and_workers_of_tensorflow_know_each_others_addresses_and_their_own_task() -> None:
    given = [json.loads(variables(order_of(index, Framework.TF), 1, 2, 3)["TF_CONFIG"]) for index in range(3)]
    assert {json.dumps(each["cluster"]) for each in given} == {
        json.dumps({"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2", "127.0.0.1:3"]})
    }
    tasks = [(each["task"]["type"], each["task"]["index"]) for each in given]
    assert tasks == [("chief", 0), ("worker", 0), ("worker", 1)]


def test_workers_of_tensorflow_without_a_master_are_all_workers() -> None:
    given = json.loads(variables(order_of(1, Framework.TF, 2, leader=None), 1, 2)["TF_CONFIG"])
    assert given == {
        "cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]},
        "task": {"type": "worker", "index": 1},
    }


def test_xgboost_has_the_variables_of_the_operator_and_of_its_tracker() -> None:
    given = variables(order_of(2, Framework.XGBOOST), 9091, 9092)
    assert given == {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "9091",
        "RANK": "2",
        "WORLD_SIZE": "3",
        "WORKER_PORT": "9092",
        "WORKER_ADDRS": "127.0.0.2,127.0.0.3",
        "DMLC_TRACKER_URI": "127.0.0.1",
        "DMLC_TRACKER_PORT": "9091",
        "DMLC_NUM_WORKER": "3",
        "DMLC_TASK_ID": "2",
        "DMLC_ROLE": "worker",
    }


def test_jax_has_the_variables_of_its_coordinator() -> None:
    assert variables(order_of(1, Framework.JAX), 7) == {
        "COORDINATOR_ADDRESS": "127.0.0.1",
        "COORDINATOR_PORT": "7",
        "NUM_PROCESSES": "3",
        "PROCESS_ID": "1",
    }


def test_torchrun_is_told_of_a_fixed_number_of_nodes() -> None:
    given = variables(order_of(1, Framework.PYTORCH), 7)
    assert (given["PET_NNODES"], given["PET_NODE_RANK"], given["PET_MASTER_PORT"]) == ("3", "1", "7")
    assert "PET_RDZV_ENDPOINT" not in given


def test_torchrun_is_told_of_an_elastic_range_and_where_to_meet() -> None:
    given = variables(order_of(1, Framework.PYTORCH, 4, minimum=2), 7)
    assert (given["PET_NNODES"], given["PET_RDZV_ENDPOINT"]) == ("2:4", "127.0.0.1:7")
    assert "PET_NODE_RANK" not in given, "nodes are numbered anew each time"


def test_the_host_file_lists_the_workers_with_their_slots_and_not_the_launcher() -> None:
    order = order_of(0, Framework.MPI, distributed=MPI)
    assert hostfile(order) == "a-worker-0 slots=2\na-worker-1 slots=2\n"


def test_host_names_of_a_run_differ_however_long_its_name_is() -> None:
    names = {mpi_host_name("-".join(["very-long"] * 9), index) for index in range(12)}
    assert len(names) == 12
    assert all(len(name) <= 63 and not name.startswith("-") for name in names)


def test_ports_differ_are_free_and_are_not_those_of_other_runs(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.prepare()
    first = state.rendezvous(order_of(0, Framework.TF))
    other = replace(order_of(0, Framework.TF), run=1)
    second = state.rendezvous(other)
    assert first is not None
    assert second is not None
    assert len({*first.ports, *second.ports}) == 6
    assert state.rendezvous(order_of(2, Framework.TF)) == first, "all pods of a run are given the same"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert taken.getsockname()[1] not in free_ports(3, set())


def test_a_run_that_has_grown_keeps_the_ports_that_its_pods_know(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.prepare()
    before = state.rendezvous(order_of(0, Framework.TF, 2))
    after = state.rendezvous(order_of(0, Framework.TF, 4))
    assert before is not None
    assert after is not None
    assert after.ports[:2] == before.ports
    assert len(after.ports) == 4


def test_a_port_that_was_taken_since_the_last_try_is_replaced_while_no_pod_of_the_run_knows_it(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.prepare()
    before = state.rendezvous(order_of(0, Framework.PYTORCH), is_first=True)
    assert before is not None
    assert state.rendezvous(order_of(0, Framework.PYTORCH), is_first=True) == before
    with socket.create_server(("127.0.0.1", before.ports[0])):
        assert state.rendezvous(order_of(1, Framework.PYTORCH)) == before
        assert state.rendezvous(order_of(0, Framework.PYTORCH), is_first=True) != before


LAUNCHER = spec(pods=3, leader=PodTemplate(), distributed=MPI)


@pytest.mark.parametrize(
    ("phases", "is_ready"),
    [
        pytest.param((RUNNING, RUNNING), True, id="all workers run"),
        pytest.param((RUNNING, BOUND), False, id="one is starting"),
        pytest.param((RUNNING, WAITING), False, id="one waits"),
        pytest.param((RUNNING, ENDED), True, id="one has ended before: the launcher may not need it"),
        pytest.param((RUNNING,), False, id="one has not been created"),
    ],
)
def test_a_launcher_is_started_when_its_workers_have_started(phases: tuple[Any, ...], is_ready: bool) -> None:
    launcher = record("a-0-0", BOUND, on="n1")
    workers = [
        record(f"a-{index}-0", phase, on="n1", outcome=Outcome.OK if phase is ENDED else None)
        for index, phase in enumerate(phases, 1)
    ]
    assert workers_have_started(LAUNCHER, launcher, [launcher, *workers]) is is_ready
    assert workers_have_started(LAUNCHER, workers[0], [launcher, *workers]), "workers wait for no other pod"
    gang = spec(pods=3, leader=PodTemplate())
    assert workers_have_started(gang, launcher, [launcher, *workers]), "a master is started with its workers"
