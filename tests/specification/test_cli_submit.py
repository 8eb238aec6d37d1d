"""What the flags of `runai submit` mean: a line that somebody types, and what is sent for it."""

from __future__ import annotations

import shlex
from typing import Any

import click
import pytest

from fairpool.cli.runai import mounts, submission
from fairpool.cli.runai.command_tree import Here
from fairpool.cli.runai.distributed import NOT_HERE, pytorch
from fairpool.cli.runai.submit import settle_command, submit
from fairpool.model.problem import Problem


def asked(line: str) -> dict[str, Any]:
    """The flags of one line, settled."""
    context = submit.make_context("runai submit", shlex.split(line), obj=Here(loglevel="error"))
    flags = dict(context.params)
    settle_command(context, context.obj, flags)
    flags["large_shm"] = flags.pop("large_shdm") or flags["large_shm"]
    return flags


def spec(line: str) -> Any:
    flags = asked(line)
    assert submission.problems(flags) == []
    body = submission.document(flags, project="p", cluster=None, command_line=line)
    assert not isinstance(submission.request(body, submission.kind_of(flags)), list)
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
    with pytest.raises(Exception, match="what runs is given twice"):
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


def gang(line: str) -> Any:
    """What `runai submit-dist pytorch` sends."""
    context = pytorch().make_context("runai submit-dist pytorch", shlex.split(line), obj=Here(loglevel="error"))
    flags = {**NOT_HERE, **context.params, "framework": "PyTorch"}
    settle_command(context, context.obj, flags)
    flags["large_shm"] = flags.pop("large_shdm") or flags["large_shm"]
    assert submission.problems(flags) == []
    body = submission.document(flags, project="p", cluster=None, command_line=line)
    sent = submission.request(body, submission.kind_of(flags))
    assert not isinstance(sent, list), sent
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


def test_a_secret_is_refused_and_not_sent_as_text() -> None:
    assert wrong("j -i img -e KEY=SECRET:name,key") == ["flag.not_supported_yet"]


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("j -i img --mps --elastic --jupyter --user x --address 0.0.0.0", ["flag.not_supported_yet"] * 5),
        ("j -i img --s3 bucket=b,key=k,secret=s,target=/d", ["flag.not_supported_yet"]),
        ("j -i img --git-sync source=r,username=u,password=p", ["flag.not_supported_yet"]),
        ("j -i img -s portforward --port 80", ["flag.not_supported_yet"]),
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
        ("j", ["spec.no_image"]),
    ],
)
def test_what_is_wrong_is_known_before_anybody_is_asked(line: str, codes: list[str]) -> None:
    assert wrong(line) == codes


def test_what_the_api_does_not_take_is_told_by_its_flag() -> None:
    flags = asked("j -i img --gpu-memory lots --extended-resource x=many")
    body = submission.document(flags, project="p", cluster=None, command_line="")
    said = submission.request(body, "train")
    assert isinstance(said, list)
    assert sorted(problem.what.partition(":")[0] for problem in said) == ["--extended-resource", "--gpu-memory"]


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
