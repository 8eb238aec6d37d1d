"""Job files: what they may say, what is wrong with them and in which line; and that what is printed can be fed back."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from fairpool.cli.runai import job_file, submission
from fairpool.cli.runai.distributed import FRAMEWORKS, NOT_HERE, UNSAID, framework_command
from fairpool.cli.runai.flags import GlobalOptions
from fairpool.cli.runai.listing import yaml_text
from fairpool.cli.runai.sending import Planned
from fairpool.cli.runai.submit import settle_command, submit
from fairpool.model.problem import Problem


def flags_of(line: str) -> dict[str, Any]:
    words = shlex.split(line)
    is_gang = words[0] in FRAMEWORKS
    command = framework_command(words[0]) if is_gang else submit
    context = command.make_context("runai submit", words[1:] if is_gang else words, obj=GlobalOptions(loglevel="error"))
    own = {**NOT_HERE, **UNSAID, "framework": FRAMEWORKS[words[0]].value} if is_gang else {}
    flags = {**own, **context.params}
    settle_command(context, context.obj, flags)
    flags["large_shm"] = flags.pop("large_shdm") or flags["large_shm"]
    return flags


def planned(line: str) -> Planned:
    flags = flags_of(line)
    assert submission.problems(flags) == []
    body = submission.document(flags, project="team-a", cluster=None, command_line=line)
    kind = submission.kind_of(flags)
    return Planned(job_file.in_order(body, kind), kind)


def jobs(text: str) -> list[job_file.Job]:
    found = job_file.read(text, "job.yaml")
    assert not [each for each in found if isinstance(each, Problem)], found
    return [each for each in found if isinstance(each, job_file.Job)]


def wrong(text: str) -> list[str]:
    """What is wrong with a file, in words."""
    found: Any = job_file.read(text, "job.yaml")
    if all(isinstance(each, job_file.Job) for each in found):
        requests = [job_file.checked(replace(each, body={"projectId": "p", **each.body})) for each in found]
        found = [problem for each in requests if isinstance(each, list) for problem in each]
    return [str(each) for each in found]


# --- round trip --------------------------------------------------------------------------------------------------

LINES = {
    "names": "--name-prefix many -i img",
    "container": "j -i host:5000/a/b:1 --image-pull-policy Never --command --working-dir /w "
    "--python-env /opt/e -e A=1 -e B=no -e C=1e3 "
    "-e D=1:30 -e 'E= x: y' -e F=0x1f -e G=null -e 'H=line\nbreak' -e I=010 -l a=1 -l b=true -a n=2020-01-01 "
    "-- python -u t.py '{index}' '- x' '# y'",
    "interactive": "j -i img --interactive --stdin -t --preemptible --attach",
    "resources": "j -i img -g 0.5 --cpu 1.5 --cpu-limit 4 --memory 1G --memory-limit 2Gi --large-shm "
    "--extended-resource a/b=2",
    "gpu memory": "j -i img --gpu-memory 4G",
    "mig": "j -i img --mig 1g.5gb",
    "file server": "j -i img --nfs-server files -v /a:/b",
    "storage": "j -i img -v /a:/b:ro -v /c:/d -v /e:/f:rw:files --pvc c:/p --pvc :1G:/q --new-pvc size=1G,path=/n,ro "
    "--git-sync source=r,branch=b,rev=v --configmap-volume name=n,path=/m --mount-propagation "
    "--secret-volume name=tokens,path=/s -e T=SECRET:tokens,hf",
    "network": "j -i img -s ingress --port 8888 --port 80:8080 --host-ipc --host-network",
    "addresses": "j -i img -s external-url,port=8888",
    "life": "j -i img --wait-anyway --backoff-limit 3 "
    "--time-limit 1h30m --after a --after b:any,c --completions 4 --parallelism 2 "
    "--priority build --ttl-after-finish 2h --grace-period 9 --node-type t --node-pools a,b --template t "
    "--toleration operator=Exists,key=k,effect=NoSchedule,seconds=4 --preferred-pod-topology-key k "
    "--topology fabric --prefer-node disk=ssd --prefer-node net=ib "
    "--required-pod-topology-key z --run-as-user --create-home-dir --add-capability NET_ADMIN "
    "--prevent-privilege-escalation",
    "assets": "j --environment-asset e --compute-resource c --data-source d --data-source x:/y",
    "array": "j -i img --array 0-20:5%2 -- python '{index}'",
    "grid": "j -i img --for lr=0.1,1e-3,true --for 'x=a b,' -- python '{lr}' '{x}'",
    "inference": "j -i img --inference --port 8000 --replicas 2",
    "distributed": "pytorch d -i img -g 1 --workers 3 -e A=1 --master-args '--role master' --master-environment B=2 "
    "--min-replicas 2 --max-replicas 4 --after a -- python t.py",
    "mpi": "mpi d -i img -g 1 --workers 3 --slots-per-worker 2 --clean-pod-policy All --master-gpu 0.5 "
    "--master-no-pvcs --pvc data:/data -- mpirun python t.py",
    "tf": "tf d -i img -g 1 --workers 3 --no-master --clean-pod-policy None -- python t.py",
}
UNPRINTED = {"source", "commandLine"}
"""Not in the file: they say how it was submitted this time."""


@pytest.mark.parametrize("form", ["yaml", "json"])
@pytest.mark.parametrize("name", LINES)
def test_what_a_dry_run_prints_is_the_same_request_when_it_is_fed_back(name: str, form: str) -> None:
    first = planned(LINES[name])
    document = first.document()
    text = yaml_text(document) if form == "yaml" else json.dumps(document, indent="\t")
    (job,) = jobs(text)
    again = job_file.checked(job)
    assert not isinstance(again, list), (again, text)
    assert job.kind == first.kind
    assert again == {name: value for name, value in first.body.items() if name not in UNPRINTED}


def test_every_flag_that_is_sent_is_in_the_round_trip(tmp_path: Path) -> None:
    """A new flag is added to a line above, or to those that do not describe the job."""
    tried = {flag for line in LINES.values() for flag in _flags_in(line)}
    not_sent = {"file", "named", "dry_run", "output", "workdir", "exclude", "array_args"}
    refused_here = {"jupyter", "elastic", "mps", "address", "custom_url", "user", "seccomp_profile", "s3", "old_job"}
    older = {"always_pull_image", "local_image", "args", "command_replaced", "large_shdm", "pvc_exists", "name"}
    either_or = {"allow_privilege_escalation"}
    known = {each.name for each in submit.params if isinstance(each, click.Option)} - {"help"}
    everywhere = {"server", "context", "project", "config", "loglevel"}
    assert known - tried - not_sent - refused_here - older - either_or - everywhere == set()


def _flags_in(line: str) -> set[str]:
    flags = flags_of(line)
    return {name for name, value in flags.items() if value not in (None, False, (), [])}


# --- forms -------------------------------------------------------------------------------------------------------


def test_several_documents_and_lists_are_several_jobs() -> None:
    assert [job.body["name"] for job in jobs("name: a\n---\nname: b\n---\n# nothing\n---\nname: c\n")] == [
        "a",
        "b",
        "c",
    ]
    assert [job.body["name"] for job in jobs('[{"name": "a"}, {"name": "b"}]')] == ["a", "b"]


def test_texts_stay_texts() -> None:
    (job,) = jobs("spec:\n  a: no\n  b: 1:30\n  c: 2020-01-01\n  d: 0x1f\n  e: 007\n  f: '1'\n  g: 1_000\n  h: .5\n")
    assert job.body["spec"] == {
        "a": "no",
        "b": "1:30",
        "c": "2020-01-01",
        "d": "0x1f",
        "e": "007",
        "f": "1",
        "g": "1_000",
        "h": ".5",
    }
    (job,) = jobs("spec: {a: 1, b: 2.5, c: true, d: ~, e: -3}")
    assert job.body["spec"] == {"a": 1, "b": 2.5, "c": True, "d": None, "e": -3}
    (job,) = jobs('{"spec": {"image": "\\ud83d\\ude00 \\/ \\t"}}')
    assert job.body["spec"]["image"] == "😀 / \t"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "name: a\nspec:\n  imge: x\n",
            "job.yaml, line 3: unknown key spec.imge: did you mean image?",
        ),
        ("nmae: a\nspec: {image: x}\n", "job.yaml, line 1: unknown key nmae: did you mean name?"),
        ("project: a\nspec: {image: x}\n", "line 1: unknown key project: did you mean projectId?"),
        (
            "spec:\n  image: x\n  compute:\n    gpus: 1\n",
            "job.yaml, line 4: unknown key spec.compute.gpus: did you mean gpu?",
        ),
        (
            "spec:\n  environmentVariables:\n    - name: A\n      valeu: b\n",
            "job.yaml, line 4: unknown key spec.environmentVariables.0.valeu: did you mean value?",
        ),
        (
            "spec:\n  environmentVariables:\n    - name: A\n      value: 3\n",
            'line 4: spec.environmentVariables.0.value: input should be a valid string: put it in quotes: "3"',
        ),
        ("name: a\n", "job.yaml, line 1: spec is missing: add spec"),
        ("kind: Trainig\nspec: {}\n", "job.yaml, line 1: unknown kind 'Trainig': did you mean Training?"),
        ("kind: [a]\nspec: {}\n", "job.yaml, line 1: unknown kind ['a']"),
        ("name: a\nname: b\n", "job.yaml, line 2: name is given twice: remove one of them"),
        ("? [a]\n: b\n", "job.yaml, line 1: a key must be text"),
        ("name: [\n", "job.yaml, line 2: "),
        ("\tname: a\n", "job.yaml, line 1: "),
        ("a: &x [1]\nb: *x\n", "job.yaml, line 1: anchors and aliases are not supported"),
        ("hello\n", "job.yaml, line 1: a job must be a mapping of keys to values"),
        ("", "job.yaml contains no job"),
        ("# only\n---\n", "job.yaml contains no job"),
        ("workdir: 3\nspec: {}\n", "job.yaml, line 1: workdir must be the path of a folder"),
        ("exclude: x\nspec: {}\n", "job.yaml, line 1: exclude must be a list of patterns"),
        ("spec: 3\n", "job.yaml, line 1: spec: "),
        ("spec: !!python/object:os.system {}\n", "job.yaml, line 1: tags are not supported"),
        ("kind: Workspace\nspec: {image: x, completions: 3}\n", "line 2: unknown key spec.completions"),
        ("spec:\n  image: x\n  deadlineSeconds: 0\n", "job.yaml, line 3: spec.deadlineSeconds: "),
        ("spec: {after: ['A B']}\n", "job.yaml, line 1: spec.after.0: "),
        pytest.param("[" * 5000, "job.yaml, line 1: nested too deeply", id="nested deeply"),
        pytest.param("a: \x00\n", "job.yaml", id="a NUL"),
        pytest.param("x" * (1 << 20) + "y", "job.yaml is larger than 1 MiB", id="too large"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, said: str) -> None:
    found = wrong(text)
    assert any(said in each for each in found), found


def test_all_that_is_wrong_is_said_at_once() -> None:
    text = "name: a\nspec:\n  imge: x\n  compute: {gpus: 1}\n---\nnmae: b\nspec: {image: y, tty: maybe}\n"
    assert len(wrong(text)) == 4


# --- flags beside a file -----------------------------------------------------------------------------------------


def merged(text: str, line: str) -> Any:
    (job,) = jobs(text)
    flags = flags_of(f"-f job.yaml {line}")
    assert submission.problems(flags) == []
    said = submission.document(flags, project="p", cluster=None, command_line="")
    return submission.over(job.body, said, flags)


FILE = """
name: a
spec:
  image: x
  command: [python]
  args: [t.py]
  compute: {gpuMemoryRequest: 4G, cpuCoreRequest: 2}
  environmentVariables: [{name: A, value: "1"}, {name: B, value: "2"}]
  labels: {team: nlp, tier: a}
  storage: {hostPath: [{path: /a, mountPath: /b}]}
"""


def test_flags_win_over_the_file() -> None:
    made = merged(FILE, "-g 2 -e B=3 -e C=4 -l tier=b -v /c:/d --name other -i y")
    spec = made["spec"]
    assert (made["name"], spec["image"]) == ("other", "y")
    assert spec["compute"] == {"gpu": "2", "cpuCoreRequest": 2}
    assert [(each["name"], each["value"]) for each in spec["environmentVariables"]] == [
        ("A", "1"),
        ("B", "3"),
        ("C", "4"),
    ]
    assert spec["labels"] == {"team": "nlp", "tier": "b"}
    assert [each["path"] for each in spec["storage"]["hostPath"]] == ["/a", "/c"]
    assert (spec["command"], spec["args"]) == (["python"], ["t.py"])


def test_words_after_the_dashes_replace_arguments_or_all_that_runs() -> None:
    spec = merged(FILE, "-- other.py")["spec"]
    assert (spec["command"], spec["args"]) == (["python"], ["other.py"])
    spec = merged(FILE, "--command -- bash -c x")["spec"]
    assert (spec["command"], "args" in spec) == (["bash", "-c", "x"], False)


def test_without_flags_the_file_stays_as_it_is() -> None:
    (job,) = jobs(FILE)
    made = merged(FILE, "")
    assert {name: made[name] for name in ("name", "spec")} == job.body
