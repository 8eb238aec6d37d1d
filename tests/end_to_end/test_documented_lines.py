"""Every line of the documents that begins with `runai` or `runai-adm` and needs no Kubernetes, typed as it is printed.

One table for each document: the line, and the effect that proves it. Names in angle brackets are filled in, and so are
three dots; the volume of the slides has another target. Lines that are typed elsewhere, with their effect:

    16 GPUs and four teams, 19 submits and a delete   test_netapp_commands.py
    `source <(runai completion bash|zsh)`, then TAB   test_shell_completion.py
    what a role of a node does to jobs                test_placement_on_one_machine.py
    `--address`, where a submit forwards ports        test_ports_on_one_machine.py
    the notebook itself, in a browser                 test_gateway_in_a_browser.py
    prompt of `runai login -u`, and a wrong password  test_command_details.py, test_runai.py
"""

from __future__ import annotations

import re
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairpool import __version__
from tests.end_to_end.documented import QUICKSTART, REGISTRY, Documented, Line, documented_platform, play
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.typist import Answer
from tests.needs import skip_unless_ci
from tests.running_platform import PATIENCE_S

pytestmark = pytest.mark.slow

Effect = Callable[[Documented, Answer], None]
TRAINING_LINE = re.compile(r"Epoch \d+/\d+\n +\d+/\d+ - ETA: \S+ - loss: [\d.]+ - acc: [\d.]+ - \d+ms/step")
LARGE = 1 << 30


@pytest.fixture(scope="module")
def opened() -> Iterator[Documented]:
    """Two nodes of eight V100, and one A10, which is cordoned until a test wants it."""
    with documented_platform("2x8:V100-32GB", "1x1:A10") as found:
        found.typed("runai-adm node cordon a10-1")
        yield found


@pytest.fixture
def documented(opened: Documented) -> Iterator[Documented]:
    yield opened
    opened.shared.tidy()


# --- effects ---------------------------------------------------------------------------------------------------


def says(*texts: str) -> Effect:
    """All of it is in the answer."""

    def effect(_: Documented, said: Answer) -> None:
        for text in texts:
            assert re.search(text, said.out + said.err, re.MULTILINE), text

    return effect


def runs(project: str, name: str, gpus: float, kind: str) -> Effect:
    """The job runs with so many GPUs, and is listed with its kind."""

    def effect(lines: Documented, said: Answer) -> None:
        assert said.out.splitlines() == [
            f"Job {name} submitted successfully.",
            "You can check the status of the job by running:",
            f"        runai describe job {name} -p {project}",
        ]
        assert lines.runs(project, name)["allocatedResources"]["gpu"] == gpus
        listed = lines.typed(f"runai list -p {project}")
        assert re.search(rf"^{name} +Running .* {kind} +{project} .* {gpus:.2f} \({gpus:.2f}\) +1 \(0\)", listed, re.M)

    return effect


def and_then(*effects: Effect) -> Effect:
    def effect(lines: Documented, said: Answer) -> None:
        for each in effects:
            each(lines, said)

    return effect


def has(project: str, name: str, command: str, pattern: str) -> Effect:
    """What a command in the job says, as soon as it does."""

    def effect(lines: Documented, _: Answer) -> None:
        lines.until(lambda: re.search(pattern, lines.shared.says(project, name, command), re.MULTILINE), pattern)

    return effect


def is_default(project: str) -> Effect:
    def effect(lines: Documented, said: Answer) -> None:
        assert f"Project {project} has been set as default project\n" in said.out
        assert re.search(rf"^{project} \(default\) ", lines.typed("runai list projects"), re.MULTILINE)

    return effect


def describes(name: str, *texts: str) -> Effect:
    """Properties, pods and events."""

    def effect(lines: Documented, said: Answer) -> None:
        assert said.out.startswith(f"NAME: {name}\n")
        for text in ("\nPods:\nPOD ", f"\n{name}-0-0 ", "\nEvents:\nSOURCE ", "[Started] on ", *texts):
            assert text in said.out, text

    return effect


def trains(project: str, name: str, *texts: str) -> Effect:
    """The log of a training that goes on."""

    def effect(lines: Documented, _: Answer) -> None:
        log = f"runai logs {name} -p {project}"
        lines.until(lambda: TRAINING_LINE.search(lines.shared.typist.type(log).out), "it trains")
        for text in texts:
            assert text in lines.typed(log), text

    return effect


def deletes(project: str, name: str) -> Effect:
    def effect(lines: Documented, said: Answer) -> None:
        assert said.out == f"Job {name} deleted successfully.\n"
        lines.until(lambda: lines.is_gone(project, name), f"{name} is gone")

    return effect


def keeps(project: str, name: str) -> Effect:
    """A slip that is answered with a hint changes nothing."""

    def effect(lines: Documented, said: Answer) -> None:
        assert said.err == "there is no command runai delte: did you mean delete?\n"
        assert lines.job(project, name)["phase"] == "Running"

    return effect


def opens(project: str, name: str, port: int) -> Effect:
    """The listed URL leads to the tool, for a program with a token."""

    def effect(lines: Documented, _: Answer) -> None:
        lines.until(lambda: lines.job(project, name)["urls"], "it has a URL")
        gateway = str(lines.shared.platform.status["gateway"]).rpartition(":")[2]
        (url,) = lines.job(project, name)["urls"]
        assert url == f"http://localhost:{gateway}/{name}-{port}"
        assert f" {url}" in lines.typed(f"runai list -p {project}")
        lines.until(lambda: "Jupyter" in _page(lines, f"{lines.job(project, name)['id']}-{port}", gateway), "it opens")

    return effect


def _page(lines: Documented, origin: str, gateway: str) -> str:
    headers = {
        "Host": f"{origin}.localhost:{gateway}",
        "Authorization": f"Bearer {lines.shared.platform.owner_token()}",
    }
    request = urllib.request.Request(f"http://127.0.0.1:{gateway}/test-ingress", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def has_large_shared_memory(project: str, name: str) -> Effect:
    def effect(lines: Documented, _: Answer) -> None:
        size = lines.shared.says(project, name, "stat -f -c '%b %S' /dev/shm").split()
        assert int(size[0]) * int(size[1]) >= LARGE

    return effect


def share_a_gpu(project: str, *names: str) -> Effect:
    def effect(lines: Documented, _: Answer) -> None:
        client = lines.shared.platform.client
        places = {(pod.node, *pod.devices) for name in names for pod in client.pods(lines.runs(project, name)["id"])}
        assert len(places) == 1, places

    return effect


def has_role(node: str, *roles: str) -> Effect:
    def effect(lines: Documented, _: Answer) -> None:
        found = re.search(rf"^{node} +\S+ +\S+ +(\S+) ", lines.typed("runai list nodes"), re.MULTILINE)
        assert found is not None
        assert found[1] == (",".join(roles) or "<none>")

    return effect


# --- the tables ------------------------------------------------------------------------------------------------


NETAPP = (
    # The line break between these two was lost in the document.
    Line(
        f"runai project set team-a runai submit hyper1 -i {QUICKSTART} -g 1",
        and_then(is_default("team-a"), lambda lines, _: assert_runs(lines, "team-a", "hyper1")),
    ),
    Line("runai delete hyper1", deletes("team-a", "hyper1")),
    Line("runai project set team-a", is_default("team-a")),
    Line(f"runai submit hyper1 -i {QUICKSTART} -g 1", runs("team-a", "hyper1", 1, "Train")),
    Line("runai list", says(r"\AShowing jobs for project team-a\nNAME +STATUS +AGE ", "^hyper1 +Running ")),
    Line("runai get hyper1", describes("hyper1", "\nTYPE: Train\n", "\nGPUS: 1.00\n")),
    Line("runai logs hyper1", trains("team-a", "hyper1")),
    Line("runai delte hyper1", keeps("team-a", "hyper1"), code=1),
    Line("runai delete hyper1", deletes("team-a", "hyper1")),
    Line(
        "runai submit build1 -i python -g 1 --interactive --command sleep --args infinity",
        and_then(
            runs("team-a", "build1", 1, "Interactive"),
            has("team-a", "build1", 'sh -c \'tr "\\000" " " < /proc/1/cmdline; cat /proc/*/cmdline\'', "sleep.infin"),
        ),
    ),
    Line("runai get build1", describes("build1", "\nTYPE: Interactive\n", "--command sleep --args infinity\n")),
    Line("runai bash build1", says("^job build1 on build1-0-0$"), keys="echo job $JOB_NAME on $(hostname)"),
    Line("runai delete build1", deletes("team-a", "build1")),
    Line(
        "runai submit test-ingress -i jupyter/base-notebook -g 1 --interactive --service-type=ingress --port 8888 "
        '--args="--NotebookApp.base_url=test-ingress" --command=start-notebook.sh',
        and_then(runs("team-a", "test-ingress", 1, "Interactive"), opens("team-a", "test-ingress", 8888)),
    ),
    Line(
        "runai submit netapp1 -i netapp/tensorflow-tfl-py3:20.01.0 --local-image --large-shm -v /mnt:/mnt "
        '-v /tmp:/tmp --command python --args "/netapp/scripts/run.py" '
        '--args "--dataset_dir=/mnt/mount_0/dataset/imagenet/imagenet_original/" --args "--num_mounts=2" '
        '--args "--dgx_version=dgx1" --args "--num_devices=1" -g 1',
        and_then(
            runs("team-a", "netapp1", 1, "Train"),
            trains("team-a", "netapp1", "--num_mounts=2 --dgx_version=dgx1 --num_devices=1"),
            has_large_shared_memory("team-a", "netapp1"),
            has("team-a", "netapp1", "cut -d' ' -f5 /proc/self/mountinfo", r"^/mnt\n(.*\n)*/tmp$|^/tmp\n(.*\n)*/mnt$"),
        ),
    ),
    Line(
        f"runai submit pvc-test -p team-a --pvc test:/tmp/pvc1mount -i {QUICKSTART} -g 1",
        runs("team-a", "pvc-test", 1, "Train"),
    ),
    Line("runai get pvc-test -p team-a", describes("pvc-test", "\nMounts:\n", "pvc test  /tmp/pvc1mount  rw\n")),
    Line("runai bash pvc-test -p team-a", says("^of an earlier job$"), keys="cat /tmp/pvc1mount/results.txt"),
    Line("runai bash frac05 -p team-d", says(r"MiB / 16255MiB \|"), keys="nvidia-smi"),
)


def assert_runs(lines: Documented, project: str, name: str) -> None:
    assert lines.runs(project, name)["allocatedResources"]["gpu"] == 1


def test_the_lines_of_the_netapp_document(documented: Documented) -> None:
    """F-118, F-276."""
    documented.shared.project("team-a", "-g 6")
    documented.shared.project("team-d", "-g 2")
    documented.typed(
        "runai submit earlier -p team-a --new-pvc claimname=test,size=1Gi,path=/data -i ubuntu -- "
        "sh -c 'echo of an earlier job > /data/results.txt'"
    )
    documented.shared.becomes("team-a", "earlier", "Succeeded")
    documented.typed(f"runai submit frac05 -p team-d -i {QUICKSTART} -g 0.5 --interactive")
    documented.runs("team-d", "frac05")
    play(documented, NETAPP)


ORACLE = (
    Line(f"runai submit frac03-3 -i {QUICKSTART} -g 0.3", runs("user-agm", "frac03-3", 0.3, "Train")),
    Line(
        f"runai submit frac05-3 -i {QUICKSTART} -g 0.5 --interactive",
        and_then(runs("user-agm", "frac05-3", 0.5, "Interactive"), share_a_gpu("user-agm", "frac03-3", "frac05-3")),
    ),
    Line(
        "runai bash frac03-3",
        says(r"\w@frac03-3-0-0:/workload\S ", r"MiB / 6908MiB \|"),  # 0.3 of an A10
        keys="nvidia-smi",
    ),
    Line(
        "runai list jobs",
        says(
            r"\AShowing jobs for project user-agm\nNAME +STATUS +AGE +NODE +IMAGE +TYPE +PROJECT +USER +"
            r"GPUs Allocated \(Requested\) +PODs Running \(Pending\) +SERVICE URL\(S\) +GPU UTIL +PROGRESS$",
            r"^frac03-3 +Running .* 0\.30 \(0\.30\) +1 \(0\) +\S+ +\S+$",
            r"^later +Suspended .* 0\.00 \(0\.10\) +0 \(0\) +– +–$",
            r"^wrong +Failed .* - \(0\.30\) +0 \(0\) +– +–$",
        ),
    ),
    Line("runai delete job frac03-3", deletes("user-agm", "frac03-3")),
)


def test_the_lines_of_the_oracle_article(documented: Documented) -> None:
    documented.typed("runai-adm node uncordon a10-1")
    documented.typed("runai-adm node-type set a10 a10-1")
    documented.shared.project("user-agm", "-g 1 --node-types-train a10 --node-types-interactive a10")
    documented.typed("runai config project user-agm")
    documented.typed("runai submit wrong -g 0.3 --backoff-limit 0 -i ubuntu -- false")
    documented.shared.becomes("user-agm", "wrong", "Failed")
    documented.typed("runai submit later -g 0.1 -i ubuntu -- sleep 1000")
    documented.runs("user-agm", "later")
    documented.typed("runai suspend later")
    documented.shared.becomes("user-agm", "later", "Suspended")
    play(documented, ORACLE)
    documented.typed("runai-adm node-type remove a10-1")
    documented.typed("runai-adm node cordon a10-1")


SLIDES = (
    Line(
        "runai submit myjob --large-shdm -e HOSTNAME=`hostname` -v /raid/public/my_datasets:/dataset "
        f"-i {REGISTRY}/nvidia/pytorch",
        and_then(
            lambda lines, _: assert_runs_without_gpu(lines, "slides", "myjob"),
            has("slides", "myjob", "printenv HOSTNAME", f"^{re.escape(socket.gethostname())}$"),
            has("slides", "myjob", "cat /dataset/labels.txt", "^cat dog$"),
            has_large_shared_memory("slides", "myjob"),
        ),
    ),
    Line(
        "runai submit nightly --template batch_ops",
        and_then(
            lambda lines, _: lines.shared.becomes("slides", "nightly", "Succeeded"),
            lambda lines, _: check(lines.typed("runai logs nightly") == "3 epochs\n"),
            lambda lines, _: check(
                lines.job("slides", "nightly")["workloadRequestedResources"]["gpu"]["request"] == 0.5
            ),
        ),
    ),
    Line(
        f"runai submit pre -i {QUICKSTART} -g 1 --interactive –preemptible",
        and_then(
            says("^Note: –preemptible was read as --preemptible", "^Warning: Using the preemptible flag may lead to"),
            runs("slides", "pre", 1, "Interactive-Preemptible"),
        ),
    ),
    Line("runai-adm set node-role", says("^the role or the node is missing: for example: runai-adm set"), code=1),
)


def check(holds: object) -> None:
    assert holds


def assert_runs_without_gpu(lines: Documented, project: str, name: str) -> None:
    assert lines.runs(project, name)["allocatedResources"]["gpu"] == 0


@contextmanager
def the_folder_of_the_slide() -> Iterator[None]:
    """`/raid/public/my_datasets` of this machine, where there is none."""
    folder = Path("/raid/public/my_datasets")
    made = next((each for each in reversed([folder, *folder.parents]) if not each.exists()), None)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "labels.txt").write_text("cat dog\n")
    except OSError as error:
        skip_unless_ci(f"{folder} cannot be made ({error.strerror})")
    try:
        yield
    finally:
        (folder / "labels.txt").unlink()
        while made is not None and folder != made.parent:
            folder.rmdir()
            folder = folder.parent


def test_the_lines_of_the_slides(documented: Documented) -> None:
    """F-105, F-144."""
    documented.shared.project("slides", "-g 2")
    documented.typed("runai config project slides")
    is_known = f"runai submit x -i {REGISTRY}/nvidia/pytorch --dry-run"
    documented.until(lambda: documented.type(is_known).code == 0, "the nodes have reported the image")
    documented.typed("runai-adm template create batch_ops -i ubuntu -g 0.5 -e EPOCHS=3 -- sh -c 'echo $EPOCHS epochs'")
    with the_folder_of_the_slide():
        play(documented, SLIDES)
        documented.typed("runai-adm template delete batch_ops")


NODE = "dgx1-2"
APPLIANCE = (
    Line("runai-adm version", says(rf"^Version: {re.escape(__version__)}$")),
    Line(
        "runai-adm generate-values --external-ips 10.0.0.1 --domain gpu.example.com --tls-cert cert.pem "
        "--tls-key key.pem --nfs-server nfs.example.com --nfs-path /exports --airgapped",
        says("is not needed: the charts have values for everything but a host name and a token"),
        code=1,
    ),
    Line(f"runai-adm set node-role --runai-system-worker {NODE}", has_role(NODE, "runai-system")),
    Line(f"runai-adm remove node-role --runai-system-worker {NODE}", has_role(NODE)),
    Line(f"runai-adm set node-role --gpu-worker {NODE}", has_role(NODE, "runai-gpu-worker")),
    Line(f"runai-adm remove node-role --gpu-worker {NODE}", has_role(NODE)),
    Line(f"runai-adm set node-role --cpu-worker {NODE}", has_role(NODE, "runai-cpu-worker")),
    Line(f"runai-adm remove node-role --cpu-worker {NODE}", has_role(NODE)),
    Line(
        f"runai-adm set node-role --all {NODE}",
        and_then(*(has_role(each, "runai-gpu-worker") for each in ("dgx1-1", NODE, "a10-1"))),
    ),
    Line(
        f"runai-adm remove node-role --all {NODE}",
        and_then(*(has_role(each) for each in ("dgx1-1", NODE, "a10-1"))),
    ),
    Line("runai list jobs", says(r"\AShowing jobs for project office\nNAME ")),
    Line("runai list projects", says("^PROJECT +DEPARTMENT +DESERVED GPUs ", r"^office \(default\) +default +1 ")),
    Line("runai list clusters", says(r"\AConfigured clusters on this computer are:\nCLUSTER ", r"^local \(current\) ")),
    Line(
        f"runai submit dry -i {QUICKSTART} -g 1 --dry-run",
        and_then(
            says(r"^name: dry$", rf"^  image: {QUICKSTART}$", "^dry would be accepted; nothing was submitted"),
            lambda lines, _: check(lines.is_gone("office", "dry")),
        ),
    ),
    Line(
        "source <(runai completion bash); complete -p runai",
        says(r"^complete .*-F \w+ runai$"),
    ),
)


def test_the_lines_of_the_appliance_guide(documented: Documented) -> None:
    """F-97, F-98, F-99, F-102, F-103, F-104."""
    documented.shared.project("office", "-g 1")
    documented.typed("runai config project office")
    play(documented, APPLIANCE)


def test_login_asks_for_user_and_password(documented: Documented) -> None:
    client = documented.shared.platform.client
    client.create_user({"email": "ann@example.com", "password": "correct horse", "needToChangePassword": False})
    environment = documented.environment("ann")
    with Terminal(["bash", "-c", "runai login"], environment) as terminal:
        terminal.read_until("User")
        terminal.write("ann@example.com\r")
        terminal.read_until("assword")
        terminal.write("correct horse\r")
        terminal.read_until("Logged in successfully")
    assert terminal.code == 0
    assert "correct horse" not in terminal.text
    done = subprocess.run(["bash", "-c", "runai whoami"], env=environment, capture_output=True, text=True, check=True)
    assert "User: ann@example.com\n" in done.stdout
