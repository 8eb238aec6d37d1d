"""What the flags of `runai submit` mean: a command line, and what is sent for it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from fairpool.agent.unpacking import Contents, unpack
from fairpool.api.wire import ValidationError
from fairpool.cli.failure import Failure
from fairpool.cli.runai import field_flags, job_file, mounts, port_flags, submission, workdir
from fairpool.cli.runai.distributed import FRAMEWORKS, NOT_HERE, UNSAID, framework_command
from fairpool.cli.runai.flags import GlobalOptions
from fairpool.cli.runai.job_update import changes
from fairpool.cli.runai.submit import settle_command, submit
from fairpool.control.refusal import validation_problems
from fairpool.model.problem import Problem
from fairpool.model.upload import Bounds


def asked(line: str) -> dict[str, Any]:
    """The flags of one line, settled."""
    context = submit.make_context("runai submit", shlex.split(line), obj=GlobalOptions(loglevel="error"))
    flags = dict(context.params)
    settle_command(context, context.obj, flags)
    flags["large_shm"] = flags.pop("large_shdm") or flags["large_shm"]
    return flags


def spec(line: str) -> Any:
    flags = asked(line)
    assert submission.problems(flags) == []
    body = submission.document(flags, project="p", cluster=None, command_line=line)
    assert job_file.in_order(body, submission.kind_of(flags))["spec"].keys() == body["spec"].keys()
    return body["spec"]


def wrong(line: str) -> list[str]:
    return [problem.code for problem in submission.problems(asked(line))]


@pytest.mark.parametrize(
    ("line", "command", "args"),
    [
        ("--command sleep --args infinity", ["sleep"], ["infinity"]),
        ("--command=start.sh --args=--a=1 --args b", ["start.sh"], ["--a=1", "b"]),
        ("--command 'python train.py'", ["python", "train.py"], None),
        ("--args a --args b", None, ["a", "b"]),
        ("-- --epochs 3", None, ["--epochs", "3"]),
        ("--command -- python -u t.py", ["python", "-u", "t.py"], None),
        ("--command -- bash -c 'a -- b'", ["bash", "-c", "a -- b"], None),
        ("--command -- a -- b", ["a", "--", "b"], None),
        ("", None, None),
    ],
)
def test_what_runs_in_the_older_and_the_newer_form(line: str, command: Any, args: Any) -> None:
    made = spec(f"job -i img {line}")
    assert (made.get("command"), made.get("args")) == (command, args)


def test_before_a_bare_dash_dash_command_takes_no_value() -> None:
    """`--command NAME -- words`: the word after it is the job's name."""
    flags = asked("-i img --command job1 -- python")
    assert (flags["name"], flags["command"]) == ("job1", ["python"])


def test_what_runs_is_not_given_twice() -> None:
    with pytest.raises(Exception, match="the command is given twice"):
        asked("j -i img --command=sleep -- python")


def test_resources_as_they_were_typed() -> None:
    made = spec("j -i img -g 0.5 --cpu 2 --cpu-limit 4 --memory 1G --memory-limit 2Gi --large-shdm")
    assert made["compute"] == {
        "gpu": "0.5",
        "cpuCoreRequest": 2.0,
        "cpuCoreLimit": 4.0,
        "cpuMemoryRequest": "1G",
        "cpuMemoryLimit": "2Gi",
        "largeShmRequest": True,
    }


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/mnt:/mnt", {"path": "/mnt", "mountPath": "/mnt"}),
        ("/a:/b:ro", {"path": "/a", "mountPath": "/b", "readOnly": True}),
        ("/a:/b:rw:files", {"server": "files", "path": "/a", "mountPath": "/b"}),
        ("relative:/b", "flag.volume"),
        ("/a", "flag.volume"),
        ("/a:/b:rx", "flag.read_only"),
    ],
)
def test_volumes(text: str, mount: Any) -> None:
    found = mounts.volume(text)
    assert (found.code if isinstance(found, Problem) else found) == mount


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("test:/tmp/pvc1mount", {"claimName": "test", "path": "/tmp/pvc1mount"}),
        ("test:/data:ro", {"claimName": "test", "path": "/data", "readOnly": True}),
        (":1G:/data", {"path": "/data", "existingPvc": False, "claimInfo": {"size": "1G"}}),
        ("fast:5Gi:/d", {"path": "/d", "existingPvc": False, "claimInfo": {"size": "5Gi", "storageClass": "fast"}}),
        (
            "fast:5Gi:/d:ro",
            {
                "path": "/d",
                "existingPvc": False,
                "claimInfo": {"size": "5Gi", "storageClass": "fast"},
                "readOnly": True,
            },
        ),
        ("test", "flag.pvc"),
        ("test:data", "flag.pvc"),
    ],
)
def test_claims(text: str, mount: Any) -> None:
    found = mounts.claim(text)
    assert (found.code if isinstance(found, Problem) else found) == mount


def test_a_new_claim_in_words() -> None:
    text = "claimname=data,storageclass=fast,size=1G,path=/d,accessmode-rwm,ro,ephemeral"
    assert mounts.new_claim(text) == {
        "path": "/d",
        "existingPvc": False,
        "claimInfo": {"size": "1G", "storageClass": "fast", "accessMode": "rwm"},
        "claimName": "data",
        "readOnly": True,
        "ephemeral": True,
    }
    slip = mounts.new_claim("siz=1G,path=/d")
    assert isinstance(slip, Problem)
    assert "did you mean size?" in slip.fix


def test_ports_and_addresses() -> None:
    made = spec("j -i img --interactive -s ingress --port 8888 --port 80:8080")
    assert made["ports"] == [
        {"container": 8888, "serviceType": "Ingress"},
        {"container": 8080, "external": 80, "serviceType": "Ingress"},
    ]
    made = spec("j -i img -s external-url,port=8888 -s nodeport,port=1:2")
    assert made["exposedUrls"] == [{"container": 8888}]
    assert made["ports"] == [{"container": 2, "external": 1, "serviceType": "NodePort"}]
    made = spec("j -i img -s portforward --port 8000:80 --port 81 --address localhost,::1")
    assert made["ports"] == [
        {"container": 80, "serviceType": "PortForward"},
        {"container": 81, "serviceType": "PortForward"},
    ]
    made = spec("j -i img --inference -s loadbalancer --port 8000:80")
    assert made["servingPort"] == {"container": 80}
    assert made["ports"] == [{"container": 80, "external": 8000, "serviceType": "LoadBalancer"}]


def test_an_external_port_needs_a_type_of_service_that_opens_it() -> None:
    (problem,) = port_flags.unmapped(asked("j -i img --port 31001:8000"))
    assert str(problem) == (
        "an external port (31001:8000) needs --service-type=nodeport or loadbalancer: add it, or write --port 8000"
    )
    for flags in ("--port 8000", "--port 80:80", "-s nodeport --port 1:2", "-s portforward --port 1:2"):
        assert not port_flags.unmapped(asked(f"j -i img {flags}")), flags


def test_an_update_of_ports_keeps_the_type_of_service_of_the_job() -> None:
    flags = asked("j -i img --port 31001:8000") | {"clear": (), "remove_label": (), "remove_environment": ()}
    current = {"ports": [{"container": 8000, "serviceType": "NodePort"}]}
    kept = port_flags.with_kept_type(flags, current)
    assert port_flags.ports(kept)["ports"] == [{"container": 8000, "external": 31001, "serviceType": "NodePort"}]
    with pytest.raises(Failure, match="needs --service-type"):
        changes("Training", {}, flags)


def test_forwarded_ports_are_of_this_machine() -> None:
    flags = asked("j -i img -s portforward --port 8000:80 --port 81 --address localhost,::1")
    assert port_flags.forwarded(flags) == [(8000, 80), (81, 81)]
    assert port_flags.addresses(flags) == ["127.0.0.1", "::1"]
    assert port_flags.forwarded(asked("j -i img -s ingress --port 81")) == []


def test_a_notebook_needs_one_flag() -> None:
    flags = asked("nb --jupyter -g 0.5")
    made = flags | port_flags.notebook(flags, "secret")
    assert submission.problems(made) == []
    spec = submission.document(made, project="p", cluster=None, command_line="")["spec"]
    assert (submission.kind_of(made), spec["image"]) == ("Workspace", "jupyter/scipy-notebook")
    assert spec["environmentVariables"] == [{"name": "JUPYTER_TOKEN", "value": "secret"}]
    assert port_flags.forwarded(made) == [(8888, 8888)]
    flags = asked("nb --jupyter -i mine -s ingress --port 9999")
    made = flags | port_flags.notebook(flags, "secret")
    spec = submission.document(made, project="p", cluster=None, command_line="")["spec"]
    assert spec["ports"] == [{"container": 9999, "serviceType": "Ingress"}]
    assert (spec["image"], spec["command"], spec["args"]) == (
        "mine",
        ["start-notebook.sh"],
        ["--NotebookApp.base_url=nb"],
    )


def gang(line: str, framework: str = "pytorch") -> Any:
    """What `runai submit-dist` sends."""
    context = framework_command(framework).make_context(
        f"runai submit-dist {framework}", shlex.split(line), obj=GlobalOptions(loglevel="error")
    )
    flags = {**NOT_HERE, **UNSAID, **context.params, "framework": FRAMEWORKS[framework].value}
    settle_command(context, context.obj, flags)
    flags["large_shm"] = flags.pop("large_shdm") or flags["large_shm"]
    assert submission.problems(flags) == []
    body = submission.document(flags, project="p", cluster=None, command_line=line)
    assert job_file.in_order(body, submission.kind_of(flags))["spec"].keys() == body["spec"].keys()
    return body["spec"]


def test_a_distributed_run_has_workers_and_a_master_like_them() -> None:
    made = gang("d -i img -g 1 --workers 3 -e A=1 -- python t.py")
    assert (made["distributedFramework"], made["numWorkers"]) == ("PyTorch", 3)
    master = {"image": "img", "args": ["python", "t.py"], "compute": {"gpu": "1"}}
    assert made["masterSpec"] == {**master, "environmentVariables": [{"name": "A", "value": "1"}]}
    assert "parallelism" not in made


def test_a_master_of_a_distributed_run_may_differ_or_not_be_there() -> None:
    line = "d -i img --gpu-memory 4G --workers 2 --master-gpu 0 --master-args '--role master' --master-environment B=2"
    made = gang(line)
    assert made["masterSpec"]["compute"] == {"gpu": "0"}
    assert made["masterSpec"]["args"] == ["--role", "master"]
    assert made["masterSpec"]["environmentVariables"] == [{"name": "B", "value": "2"}]
    assert made["compute"] == {"gpuMemoryRequest": "4G"}
    made = gang("d -i img --no-master --min-replicas 2 --max-replicas 4")
    assert (made["noMaster"], made["numWorkers"], made["minReplicas"], made["maxReplicas"]) == (True, 4, 2, 4)
    assert "masterSpec" not in made


def test_the_command_of_mpi_runs_in_its_launcher_which_has_no_gpu() -> None:
    made = gang("d -i img -g 1 --workers 3 --slots-per-worker 2 --cpu 2 -- mpirun python t.py", "mpi")
    assert (made["distributedFramework"], made["numWorkers"], made["slotsPerWorker"]) == ("MPI", 3, 2)
    assert made["masterSpec"]["args"] == ["mpirun", "python", "t.py"]
    assert made["masterSpec"]["compute"] == {"cpuCoreRequest": 2.0}
    assert (made["compute"]["gpu"], "args" in made, "command" in made) == ("1", False, False)
    assert gang("d -i img -g 1 --master-gpu 0.5 -- mpirun a", "mpi")["masterSpec"]["compute"] == {"gpu": "0.5"}


@pytest.mark.parametrize("flag", ["--interactive", "--preemptible", "--completions 2", "--parallelism 2"])
def test_a_distributed_run_takes_no_flags_of_other_kinds(flag: str) -> None:
    with pytest.raises(click.NoSuchOption):
        gang(f"d -i img {flag}")


def test_a_variable_may_take_its_value_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_FOR_TEST", "a=b,c")
    made = spec("j -i img -e A=1 -e TOKEN_FOR_TEST -e B=x=y,z")
    assert made["environmentVariables"] == [
        {"name": "A", "value": "1"},
        {"name": "TOKEN_FOR_TEST", "value": "a=b,c"},
        {"name": "B", "value": "x=y,z"},
    ]


def test_a_secret_is_sent_as_a_reference_and_not_as_text() -> None:
    made = spec("j -i img -e KEY=SECRET:name,key --secret-volume name=tokens,path=/s")
    assert made["environmentVariables"] == [{"name": "KEY", "credential": {"name": "name", "key": "key"}}]
    assert made["storage"]["secretVolume"] == [{"name": "tokens", "mountPath": "/s"}]
    for slip in ("SECRET:", "SECRET:name", "SECRET:,key", "SECRET:name,"):
        assert wrong(f"j -i img -e KEY={slip}") == ["flag.environment"]
    assert wrong("j -i img --secret-volume name=tokens") == ["flag.missing_key"]


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("j -i img --mps --seccomp-profile x", ["flag.not_supported_yet"] * 2),
        ("j -i img --elastic", ["flag.elastic"]),
        ("j -i img --elastic --parallelism 2 --completions 2", ["flag.elastic"]),
        ("j -i img --s3 bucket=b,key=k,secret=s,target=/d", ["flag.not_supported_yet"]),
        ("j -i img --git-sync source=r,username=u,password=p", ["flag.git_password"]),
        ("j -i img --address 0.0.0.0", ["flag.address"]),
        ("j -i img -s portforward --port 80 --attach", ["flag.attach_and_forward"]),
        ("j -i img -s nodeport --port 70000:80", ["flag.port"]),
        ("j -i img -s nodeport --port x:80", ["flag.port"]),
        ("j -i img -s external-url --port 80 --custom-url https://x", ["flag.not_supported_yet"]),
        ("j -i img -s external-url,port=80,custom-url=https://x", ["flag.not_supported_yet"]),
        ("j -i img -s ingres --port 80", ["flag.service_type"]),
        ("j -i img -s ingress", ["flag.no_port"]),
        ("j -i img --ttl-after-finish soon", ["value.not_understood"]),
        ("j -i img --toleration key=a,seconds=x", ["flag.toleration"]),
        ("j -i img --label nothing --annotation x", ["flag.no_pair", "flag.no_pair"]),
        ("j -i img --interactive --parallelism 2", ["flag.sweep"]),
        ("j -i img -g 0.5 --mig 1g.5gb", ["gpu.several_ways"]),
        ("j -i img -g 2.5", ["gpu.fraction_of_many"]),
    ],
)
def test_what_is_wrong_is_known_before_the_server_is_asked(line: str, codes: list[str]) -> None:
    assert wrong(line) == codes


def test_what_the_api_does_not_take_is_told_by_its_flag() -> None:
    flags = asked("j -i img --gpu-memory lots --extended-resource x=many")
    body = submission.document(flags, project="p", cluster=None, command_line="")
    with pytest.raises(ValidationError) as refusal:
        job_file.in_order(body, "Training")
    items = validation_problems(refusal.value.errors())  # as the server does
    reported = [str(field_flags.refused_flag(each.problem(), each.field or "")) for each in items]
    assert reported == [
        "--gpu-memory: 'lots' is not valid: use a number with a unit: 500M, 4Gi, 1.5G",
        "--extended-resource: input should be a valid integer: correct the value",
    ]


def test_life_cycle_and_scheduling() -> None:
    made = spec(
        "j -i img --backoffLimit 3 --ttl-after-finish 1h30m --node-pools a,b --node-pools c --node-type dgx-2 "
        "--priority build --toleration operator=Exists,key=k,effect=NoSchedule --completions 4 --parallelism 2"
    )
    assert made["backoffLimit"] == 3
    assert made["autoDeletionTimeAfterCompletionSeconds"] == 5400
    assert made["nodePools"] == ["a", "b", "c"]
    assert made["tolerations"] == [{"operator": "Exists", "key": "k", "effect": "NoSchedule"}]
    assert (made["nodeType"], made["priorityClass"], made["completions"], made["parallelism"]) == (
        "dgx-2",
        "build",
        4,
        2,
    )


def test_the_command_line_is_kept_within_bounds() -> None:
    body = submission.document(asked("j -i img"), project="p", cluster="c", command_line="x" * 10_000)
    assert len(body["commandLine"]) == submission.COMMAND_LINE_MAX
    assert body["clusterId"] == "c"


def test_every_flag_of_submit_says_what_it_is_for() -> None:
    for parameter in submit.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, parameter.opts


# --- folders, order, arrays --------------------------------------------------------------------------------------


def test_time_order_and_arrays() -> None:
    made = spec("j -i img --time-limit 1h30m --after prep --after clean:any,third -- python t.py")
    assert (made["deadlineSeconds"], made["after"]) == (5400, ["prep", "clean:any", "third"])
    made = spec("j -i img --array 0-99%10 -- python t.py --lr {index}")
    assert (made["array"], made["parallelism"]) == ({"indices": "0-99"}, 10)
    made = spec("j -i img --for lr=0.1,0.2 --for seed=1 --parallelism 2 -- python")
    assert made["array"]["parameters"] == [{"name": "lr", "values": ["0.1", "0.2"]}, {"name": "seed", "values": ["1"]}]
    assert made["parallelism"] == 2
    assert spec("j -i img --array %3 --for x=1,2")["parallelism"] == 3


def test_a_file_of_arguments_is_one_run_a_line(tmp_path: Path) -> None:
    (tmp_path / "runs.txt").write_text("--lr 0.1 --name 'a b'\n\n# no run\n--lr 0.2\n")
    made = spec(f"j -i img --array-args {tmp_path / 'runs.txt'} -- python t.py")
    assert made["array"] == {"arguments": [["--lr", "0.1", "--name", "a b"], ["--lr", "0.2"]]}
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "open.txt").write_text("'a\n")
    for name in ("absent.txt", "empty.txt", "open.txt"):
        assert wrong(f"j -i img --array-args {tmp_path / name}") == ["flag.array_args"]


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("j -i img --time-limit soon", ["value.not_understood"]),
        ("j -i img --time-limit 0", ["value.not_understood"]),
        ("j -i img --array 0-9%x", ["flag.array"]),
        ("j -i img --array 0-9%0", ["flag.array"]),
        ("j -i img --array 0-9%", ["flag.array"]),
        ("j -i img --array 0-9%2 --parallelism 3", ["flag.array"]),
        ("j -i img --array 0-9 --interactive", ["flag.array"]),
        ("j -i img --array 0-9 --completions 3", ["flag.array"]),
        ("j -i img --for lr", ["flag.for"]),
        ("j -i img --for =1", ["flag.for"]),
        ("j -i img --for lr=", ["flag.for"]),
    ],
)
def test_what_is_wrong_with_order_and_arrays(line: str, codes: list[str]) -> None:
    assert wrong(line) == codes


@pytest.mark.parametrize(
    ("text", "folder", "found"),
    [
        (".:/w", "/srv/me/code", "/srv/me/code:/w"),
        ("./data:/w:ro", "/srv/me", "/srv/me/data:/w:ro"),
        ("../x:/w", "/srv/me", "/srv/x:/w"),
        ("/abs:/w", None, "/abs:/w"),
        ("/abs", "/srv/me", "/abs"),
        (".:/w", None, "flag.volume_elsewhere"),
        ("no-such-folder:/w", "/", "flag.volume_missing"),
        ("tmp:/w", "/", "/tmp:/w"),
    ],
)
def test_a_relative_volume_is_taken_from_where_it_was_typed(text: str, folder: str | None, found: str) -> None:
    said = mounts.on_this_machine(text, folder)
    assert (said.code if isinstance(said, Problem) else said) == found


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("x -i python python train.py --lr 1", "x -i python -- python train.py --lr 1"),
        ("x -i=python python train.py", "x -i=python -- python train.py"),
        (
            "x --image=python -g 0.5 --interactive python 'a b.py'",
            "x --image=python -g 0.5 --interactive -- python 'a b.py'",
        ),
        ("--name x -i python python train.py", "--name x -i python -- python train.py"),
        ("x -ipython bash -c ls", "x -ipython -- bash -c ls"),
    ],
)
def test_who_forgets_the_dashes_is_told_the_line(line: str, corrected: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        asked(line)
    assert refused.value.message == f"the command to run comes after --: runai submit {corrected}"


def test_an_unknown_flag_is_refused_as_elsewhere() -> None:
    with pytest.raises(click.NoSuchOption):
        asked("x -i python --imagee y")


def test_what_the_server_refuses_is_told_by_its_flag() -> None:
    problem = Problem("spec.not_supported", "security.hostIpc is not supported by the process runtime", "leave it out")
    said = field_flags.refused_flag(problem, "spec.security.hostIpc")
    assert said.what == "--host-ipc is not supported by the process runtime"
    assert field_flags.refused_flag(problem, "spec.elsewhere") is problem


def tree(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def sent(folder: Path, *exclude: str) -> list[str]:
    return [path for path, _ in workdir.look_through(str(folder), exclude).files]


def test_keys_version_control_and_environments_stay_here(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", ".git/config", ".env", ".env.local", "sub/.env", "id_rsa", "sub/x.pem", "tls.key", ".ssh/id")
    tree(tmp_path, ".aws/credentials", ".netrc", "sub/keep.txt", "identity.py", ".hidden")
    assert sent(tmp_path) == [".hidden", "a.py", "identity.py", "sub", "sub/keep.txt"]
    left = workdir.look_through(str(tmp_path)).left_out()
    assert left == [".aws, .env, .env.local, .git, .netrc, .ssh and 4 more: not uploaded"]


def test_what_else_is_left_out_is_for_the_person_to_say(tmp_path: Path) -> None:
    tree(
        tmp_path, "a.py", "big.ckpt", "sub/big.ckpt", "logs/x", "sub/logs", "data/raw/1", "data/fine/1", ".env.example"
    )
    (tmp_path / ".fairpoolignore").write_text("# mine\n*.ckpt\nlogs/\n/data/raw\n!.env.example\n")
    assert sent(tmp_path) == [
        ".env.example",
        ".fairpoolignore",
        "a.py",
        "data",
        "data/fine",
        "data/fine/1",
        "sub",
        "sub/logs",
    ]
    assert sent(tmp_path, "data", "sub/logs", "!big.ckpt") == [
        ".env.example",
        ".fairpoolignore",
        "a.py",
        "big.ckpt",
        "sub",
        "sub/big.ckpt",
    ]


def test_links_and_what_is_no_file_are_not_followed(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    tree(tmp_path, "line\nbreak")
    found = workdir.look_through(str(tmp_path))
    assert ([path for path, _ in found.files], found.links, found.odd) == (
        ["a.py"],
        ["link", "loop"],
        ["line\nbreak", "pipe"],
    )


def test_what_is_packed_is_what_the_server_unpacks(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    tree(here, "a.py", "sub/" + "long-" * 40 + "name", "sub/ä漢", "run.sh")
    (here / "empty").mkdir()
    (here / "run.sh").chmod(0o755)
    with (tmp_path / "archive").open("w+b") as file:
        workdir.pack(str(here), workdir.look_through(str(here)), file)
    found = unpack(tmp_path / "archive", there, Bounds(size_bytes=1 << 20, files=100, total_bytes=1 << 30))
    assert found == Contents(6, sum(path.stat().st_size for path in here.rglob("*") if path.is_file()))
    assert {str(path.relative_to(there)) for path in there.rglob("*")} == {
        str(path.relative_to(here)) for path in here.rglob("*")
    }
    assert os.access(there / "run.sh", os.X_OK)
    assert not os.access(there / "a.py", os.X_OK)


def test_a_script_of_this_folder_is_recognized(tmp_path: Path) -> None:
    tree(tmp_path, "train.py", "bin/run", "python")
    assert list(workdir.relative_scripts(["python", "train.py", "--x", "absent.py", "bin/run"], str(tmp_path))) == [
        "train.py",
        "bin/run",
    ]
    assert list(workdir.relative_scripts(["python", "-c", "print(1.5)", "/etc/passwd"], str(tmp_path))) == []


def test_a_folder_and_where_it_is_seen() -> None:
    assert workdir.folder_and_path(".") == (".", "/workdir")
    assert workdir.folder_and_path("code:/src") == ("code", "/src")
    assert workdir.folder_and_path("odd:name") == ("odd:name", "/workdir")
