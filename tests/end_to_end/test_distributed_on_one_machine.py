"""Distributed training with real programs: Open MPI, XGBoost, and what TensorFlow and torchrun expect to find."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.end_to_end.shared_platform import SharedPlatform
from tests.end_to_end.typist import Typist
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

INSTALL_S = 600
REDUCE = """
import ctypes, os, pathlib, socket, time
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
handle = lambda name: ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
world, rank, size, total = handle("ompi_mpi_comm_world"), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
say = lambda text: os.write(1, f"{text}\\n".encode())  # in one piece, because mpirun joins all output
say(f"begins {rank.value}")
go = pathlib.Path(os.environ["FAIRPOOL_CHECKPOINT_DIR"], "go")
while os.environ.get("WAITS") and not go.exists():
    time.sleep(0.05)
mine = ctypes.c_int(rank.value + 1)
mpi.MPI_Allreduce(
    ctypes.byref(mine), ctypes.byref(total), 1, handle("ompi_mpi_int"), handle("ompi_mpi_op_sum"), world
)
gpus = os.environ["CUDA_VISIBLE_DEVICES"].count(",") + bool(os.environ["CUDA_VISIBLE_DEVICES"])
say(f"rank {rank.value} of {size.value} on {socket.gethostname()} with {gpus} GPUs: {total.value}")
mpi.MPI_Finalize()
"""
"""A real allreduce, without a compiler: the handles of Open MPI are addresses of its variables."""
ALL_MEET = """
import json, os, socket, threading, time
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
own = config["cluster"][task["type"]][task["index"]]
there = [each for members in config["cluster"].values() for each in members]
address = lambda text: (text.partition(":")[0], int(text.partition(":")[2]))
heard = set()
server = socket.create_server(address(own))
def listen():
    while True:
        peer, _ = server.accept()
        heard.add(peer.recv(100).decode())
threading.Thread(target=listen, daemon=True).start()
for each in there:
    while True:
        try:
            with socket.create_connection(address(each)) as peer:
                peer.sendall(own.encode())
            break
        except OSError:
            time.sleep(0.05)
while heard != set(there):
    time.sleep(0.05)
print(task["type"], task["index"], "heard", len(heard), flush=True)
"""
RENDEZVOUS = """
import os, socket, time
host, _, port = os.environ["PET_RDZV_ENDPOINT"].partition(":")
least, most = map(int, os.environ["PET_NNODES"].split(":"))
try:
    server = socket.create_server((host, int(port)))
except OSError:
    server = None
if server is None:
    while True:
        try:
            peer = socket.create_connection((host, int(port)))
            break
        except OSError:
            time.sleep(0.05)
    peer.recv(1)
else:
    members = [server.accept()[0] for _ in range(least - 1)]
    print("meets", len(members) + 1, "of", most, flush=True)
    time.sleep(1000)
"""
"""As the c10d rendezvous of torchrun: the first to get the port is the host; it goes on with the minimum."""
BOOST = """
import hashlib, os
import numpy, xgboost
from xgboost import collective, tracker
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if rank == 0:
    found = tracker.RabitTracker(world, host_ip=os.environ["MASTER_ADDR"], port=int(os.environ["MASTER_PORT"]))
    found.start()
where = {"dmlc_tracker_uri": os.environ["DMLC_TRACKER_URI"], "dmlc_tracker_port": int(os.environ["DMLC_TRACKER_PORT"])}
with collective.CommunicatorContext(**where, dmlc_task_id=os.environ["DMLC_TASK_ID"], dmlc_retry=600):
    numbers = numpy.random.default_rng(rank).normal(size=(200, 4))
    data = xgboost.DMatrix(numbers, (numbers[:, 0] > 0).astype(int))
    model = xgboost.train({"objective": "binary:logistic", "tree_method": "hist", "nthread": 1}, data, 5)
    name = hashlib.sha256("".join(model.get_dump()).encode()).hexdigest()
    print("model", name, "of", collective.get_world_size(), flush=True)
if rank == 0:
    found.wait_for()
"""
MASTER_ENDS_FIRST = """
import os, pathlib, time
print("hello", flush=True)
mark = pathlib.Path(os.environ["FAIRPOOL_CHECKPOINT_DIR"], "worker")
if os.environ["RANK"] != "0":
    mark.touch()
    time.sleep(1000)
while not mark.exists():
    time.sleep(0.05)
"""
FIRST_TRY_WAITS = """
import os, pathlib, time
mark = pathlib.Path(os.environ["FAIRPOOL_CHECKPOINT_DIR"], "tried")
if mark.exists():
    print("again", flush=True)
else:
    mark.touch()
    print("first", flush=True)
    time.sleep(1000)
"""


@pytest.fixture(scope="module")
def opened() -> Iterator[SharedPlatform]:
    """Two nodes of four GPUs."""
    folder = Path(tempfile.mkdtemp(prefix="fairpool-distributed-", dir="/var/tmp"))
    platform = Running(folder / "data", config=folder / "admin" / "config")
    try:
        platform.up("--nodes", "2x4:V100-32GB")
        yield SharedPlatform(platform, Typist(str(platform.status["address"]), folder))
    finally:
        platform.clean_up()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def shared(opened: SharedPlatform) -> Iterator[SharedPlatform]:
    opened.project("dist", "-g 8")
    opened.typed("runai config project dist")
    yield opened
    opened.tidy()


@pytest.fixture
def mpirun() -> str:
    return needs.program("mpirun", "openmpi-bin")


def log(shared: SharedPlatform, name: str, pod: int = 0, incarnation: int = 0) -> str:
    return shared.typist.type(f"runai logs {name} --pod {name}-{pod}-{incarnation}").out


def says(shared: SharedPlatform, name: str, *words: str, pod: int = 0) -> None:
    shared.until(lambda: all(word in log(shared, name, pod) for word in words), f"pod {pod} says {words}")


# --- MPI -----------------------------------------------------------------------------------------------------------


@pytest.mark.flag("--workers", "--slots-per-worker")
def test_mpirun_starts_its_processes_in_the_workers(shared: SharedPlatform, mpirun: str) -> None:
    program = shlex.quote(REDUCE)
    line = (
        f"runai submit-dist mpi reduce -i python -g 3 --workers 2 --slots-per-worker 2 -- {mpirun} python -c {program}"
    )
    assert "3 pods (1 launcher + 2 workers), 6 GPUs" in shared.typed(line)
    shared.becomes("dist", "reduce", "Succeeded")
    lines = [each for each in log(shared, "reduce").splitlines() if each.startswith("rank")]
    assert sorted(lines) == [
        f"rank {rank} of 4 on reduce-worker-{rank // 2} with 3 GPUs: {1 + 2 + 3 + 4}" for rank in range(4)
    ]
    assert "WARNING" not in log(shared, "reduce")
    nodes = {pod.node for pod in shared.platform.client.pods(shared.jobs("dist")["reduce"]["id"]) if pod.index}
    assert len(nodes) == 2, "the workers were on two nodes"


@pytest.mark.flag("--processes")
def test_mpi_goes_on_while_the_server_is_dead(shared: SharedPlatform, mpirun: str) -> None:
    shared.typed(
        f"runai submit-mpi alone -i python -g 1 --processes 2 -e WAITS=1 -- {mpirun} python -c {shlex.quote(REDUCE)}"
    )
    says(shared, "alone", "begins 0", "begins 1")
    address = str(shared.platform.status["address"])
    shared.platform.kill()
    shared.platform.up("--listen", address.removeprefix("http://"))
    shared.until(lambda: shared.typist.type("runai list").code == 0, "it is back")
    shared.typed("runai exec alone --pod alone-1-0 -- sh -c 'touch $FAIRPOOL_CHECKPOINT_DIR/go'")
    shared.becomes("dist", "alone", "Succeeded")
    assert "rank 1 of 2 on alone-worker-1 with 1 GPUs: 3" in log(shared, "alone")


def test_when_a_worker_is_killed_the_whole_gang_restarts(shared: SharedPlatform) -> None:
    shared.typed(f"runai submit-dist mpi again -i python -g 1 --workers 2 -- python -c {shlex.quote(FIRST_TRY_WAITS)}")
    says(shared, "again", "first")
    shared.typist.type("runai exec again --pod again-2-0 -- sh -c 'kill -9 2'")
    shared.becomes("dist", "again", "Succeeded")
    assert log(shared, "again", incarnation=1) == "again\n"
    tries = shared.typed("runai history again")
    assert all(f"again-{index}-1" in tries for index in range(3)), tries
    assert "all pods of again restart together" in shared.typed("runai describe job again")


def test_a_launcher_reaches_its_own_workers_and_nothing_else_does(shared: SharedPlatform) -> None:
    """A pod of the same project, another pod with a guess at the path, and another user of the machine."""
    wait = "-- sleep 1000"
    shared.typed(f"runai submit-dist mpi gang -i python -g 1 --workers 1 --command {wait}")
    shared.typed(f"runai submit outsider -i python --command {wait}")
    shared.becomes("dist", "gang", "Running")
    shared.becomes("dist", "outsider", "Running")
    there = "runai exec gang -- fairpool-rsh"
    assert shared.typed(f"{there} gang-worker-0 'hostname; exit 0'") == "gang-worker-0\n"
    assert shared.typist.type(f"{there} gang-worker-0 'exit 7'").code == 7
    unknown = shared.typist.type(f"{there} elsewhere true")
    assert (unknown.code, "elsewhere is not a worker of this job; its workers: gang-worker-0" in unknown.err) == (
        255,
        True,
    )
    assert shared.typist.type(f"{there} ../gang-worker-0 true").code == 255
    outsider = shared.typist.type("runai exec outsider -- fairpool-rsh gang-worker-0 true")
    assert (outsider.code, "this is not a pod of an MPI job" in outsider.err) == (255, True)
    (gang,) = (shared.platform.data_directory.machine / "gangs").iterdir()
    for place in ("/run/fairpool/peers", str(gang)):
        guess = f"runai exec outsider -- env FAIRPOOL_PEERS={place} fairpool-rsh gang-worker-0 true"
        assert shared.typist.type(guess).code == 255
    processes = shared.typed('runai exec gang -- sh -c \'cat /proc/[0-9]*/cmdline | tr "\\0" " "\'')
    assert "secret" not in processes
    if os.geteuid() == 0:
        assert refused_for_another_user(gang, "gang-worker-0")
    assert shared.typed(f"{there} gang-worker-0 hostname") == "gang-worker-0\n", "it works on after all of that"


def refused_for_another_user(directory: Path, name: str) -> bool:
    """Whether a process of another user, that has even got into the directory, is sent away."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    code = 1
    try:
        os.chdir(directory)
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(PATIENCE_S)
        connection.connect(name)
        request = {"op": "exec", "argv": ["/bin/true"], "env": {}, "cwd": "", "tty": False, "size": [24, 80]}
        try:
            socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
            code = 0 if connection.recv(4096) == b"" else 1
        except (BrokenPipeError, ConnectionResetError):
            code = 0
    finally:
        os._exit(code)


# --- what happens at the end ---------------------------------------------------------------------------------------


@pytest.mark.flag("--clean-pod-policy")
def test_pods_that_still_run_at_the_end_are_kept_or_stopped_and_output_removed_as_asked(shared: SharedPlatform) -> None:
    """`--clean-pod-policy`: by default workers are stopped, and their output is kept."""
    program = shlex.quote(MASTER_ENDS_FIRST)
    for policy in ("Running", "All", "None"):
        flags = f"-i python -g 1 --workers 1 --clean-pod-policy {policy}"
        shared.typed(f"runai submit-dist pytorch {policy.lower()} {flags} -- python -c {program}")
    shared.becomes("dist", "running", "Succeeded")
    shared.becomes("dist", "all", "Succeeded")
    assert (log(shared, "running", 0), log(shared, "running", 1)) == ("hello\n", "hello\n")
    shared.until(lambda: log(shared, "all", 0) == log(shared, "all", 1) == "", "the output is removed")
    kept = "completed; 1 pod keeps running (clean-pod policy None)"
    shared.until(lambda: kept in str(shared.jobs("dist")["none"]["phaseMessage"]), kept)
    assert shared.status("dist", "none") == "Running"
    assert shared.jobs("dist")["none"]["allocatedResources"]["gpu"] == 1, "what runs is counted"
    shared.typed("runai delete none")
    shared.until(lambda: "none" not in shared.jobs("dist"), "its last pod is stopped and it is gone")


# --- TensorFlow, torchrun, XGBoost ---------------------------------------------------------------------------------


def test_tasks_of_tensorflow_listen_and_reach_each_other(shared: SharedPlatform) -> None:
    flags = "-i python -g 1 --workers 2 --clean-pod-policy None"  # else workers are stopped when the chief has ended
    shared.typed(f"runai submit-dist tf tf1 {flags} -- python -c {shlex.quote(ALL_MEET)}")
    shared.becomes("dist", "tf1", "Succeeded")
    heard = [log(shared, "tf1", index) for index in range(3)]
    assert heard == ["chief 0 heard 3\n", "worker 0 heard 3\n", "worker 1 heard 3\n"]


@pytest.mark.flag("--min-replicas", "--max-replicas")
def test_an_elastic_run_begins_with_its_minimum(shared: SharedPlatform) -> None:
    """Another job has four of the eight GPUs: of five workers, three find a place beside the master."""
    shared.typed("runai submit other -i python -g 4 --command -- sleep 1000")
    shared.becomes("dist", "other", "Running")
    shared.typed(
        "runai submit-dist pytorch grows -i python -g 1 --min-replicas 2 --max-replicas 5 "
        f"-- python -c {shlex.quote(RENDEZVOUS)}"
    )

    def said() -> str:
        return "".join(log(shared, "grows", index) for index in range(4))

    shared.until(lambda: said() == "meets 3 of 6\n", "the minimum has met")
    shared.typed("runai delete other")
    shared.until(lambda: shared.jobs("dist")["grows"]["runningPods"] == 6, "it has grown")


def test_xgboost_trains_one_model_in_three_pods(shared: SharedPlatform, boosted: Path) -> None:
    shared.typed(
        f"runai submit-dist xgboost boost -i python -g 1 --workers 2 --python-env {boosted} "
        f"-- python -c {shlex.quote(BOOST)}"
    )
    shared.becomes("dist", "boost", "Succeeded")
    models = {line for index in range(3) for line in log(shared, "boost", index).splitlines() if "model" in line}
    (model,) = models
    assert model.endswith(" of 3"), "all have the same, made of the data of all"


@pytest.fixture(scope="module")
def boosted() -> Iterator[Path]:
    """XGBoost from the package registry, where pods can see it."""
    folder = Path(tempfile.mkdtemp(prefix="fairpool-xgboost-", dir="/var/tmp"))
    folder.chmod(0o755)
    environment = folder / "environment"
    commands = (
        [sys.executable, "-m", "venv", str(environment)],
        [f"{environment}/bin/python", "-m", "pip", "install", "--quiet", "xgboost-cpu>=3,<4"],
    )
    try:
        for command in commands:
            done = subprocess.run(command, capture_output=True, timeout=INSTALL_S, check=False)
            if done.returncode != 0:
                needs.skip_unless_ci(f"XGBoost cannot be installed here: {done.stderr.decode()[-300:]}")
        yield environment
    finally:
        shutil.rmtree(folder, ignore_errors=True)
