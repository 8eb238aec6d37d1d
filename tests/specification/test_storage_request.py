"""Storage of a submit: what is declared of it, and everything that is refused, hostile names included."""

from __future__ import annotations

from typing import Any

import pytest

from fairpool.api import workload_spec as wire
from fairpool.api.organization import ProjectRequest
from fairpool.control.admission import AdmissionContext, admit
from fairpool.control.storage_request import KnownClaim, StorageContext
from fairpool.model.git_address import git_problem, is_reference
from fairpool.model.ids import Instant, WorkloadId
from fairpool.model.spec import AccessMode, GitClone, Volume, WorkloadSpec

KNOWN = StorageContext(
    claims={
        "data": KnownClaim(),
        "frozen": KnownClaim(access=AccessMode.READ_ONLY, workload="w-0"),
        "scratch": KnownClaim(access=AccessMode.ONE_NODE, workload="w-0", deleted_with="first"),
        "leaving": KnownClaim(is_deleting=True),
    },
    roots=("/data", "/mnt/shared"),
    config_maps={"cfg": {"b.yaml": "2", "a": "1"}},
    git_timeout_s=60,
    git_size_bytes=1000,
)


def answer(workload: str = "w", context: StorageContext = KNOWN, **spec: Any) -> Any:
    body = {"name": "a", "projectId": "team-a", "spec": {"image": "i", **spec}}
    within = AdmissionContext(project=ProjectRequest(name="team-a"), pools=frozenset(), storage=context)
    submit = wire.SubmitTraining.model_validate(body)
    return admit(submit, within, workload_id=WorkloadId(workload), name="a", now=Instant(1))


def declared(workload: str = "w", **spec: Any) -> WorkloadSpec:
    found = answer(workload, **spec)
    assert isinstance(found, WorkloadSpec), found
    return found


def of_the_master(context: StorageContext = KNOWN, **master: Any) -> list[tuple[str, str | None]]:
    """Codes and fields of what is refused of distributed training whose master is described apart."""
    spec = {"image": "i", "numWorkers": 1, "distributedFramework": "PyTorch", "masterSpec": master}
    body = {"name": "a", "projectId": "team-a", "spec": spec}
    within = AdmissionContext(project=ProjectRequest(name="team-a"), pools=frozenset(), storage=context)
    submit = wire.SubmitDistributed.model_validate(body)
    found = admit(submit, within, workload_id=WorkloadId("w"), name="a", now=Instant(1))
    return [] if isinstance(found, WorkloadSpec) else [(each.code, each.field) for each in found]


def complaints(workload: str = "w", context: StorageContext = KNOWN, **spec: Any) -> list[str]:
    found = answer(workload, context, **spec)
    return [] if isinstance(found, WorkloadSpec) else [each.code for each in found]


# --- addresses of repositories


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/o/r.git",
        "http://127.0.0.1:3000/r",
        "https://[::1]:3000/r.git",
        "git://host/r",
        "file:///data/r.git",
        "https://host/o/r%20x~y",
    ],
)
def test_addresses_that_git_reads_as_such_are_accepted(address: str) -> None:
    assert git_problem(address) is None


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("--upload-pack=touch /tmp/x", "git.address"),
        ("-u", "git.address"),
        ("ext::sh -c id", "git.address"),
        ("fd::17", "git.address"),
        ("/etc", "git.address"),
        ("../x", "git.address"),
        ("r", "git.address"),
        ("", "git.address"),
        ("file://host/etc", "git.address"),
        ("file:///data/../etc", "git.path"),
        ("https://", "git.address"),
        ("https://-oProxyCommand=x/r", "git.address"),
        ("https://-x/r", "git.address"),
        ("https://host name/r", "git.address"),
        ("https://host/r\nx", "git.address"),
        ("https://host/r\x1b[0m", "git.address"),
        ("https://host\\@evil/r", "git.address"),
        ("ftp://host/r", "git.address"),
        ("https://" + "h" * 300, "git.address"),
        ("https://user:secret@host/r", "git.credentials"),
        ("https://token@host/r", "git.credentials"),
        ("git@host:o/r.git", "git.ssh"),
        ("ssh://git@host/r", "git.ssh"),
        ("ssh://-oProxyCommand=id/r", "git.ssh"),
    ],
)
def test_other_addresses_are_refused_and_secrets_in_them_not_repeated(address: str, code: str) -> None:
    problem = git_problem(address)
    assert problem is not None
    assert problem.code == code
    assert "secret" not in str(problem)


@pytest.mark.parametrize("name", ["main", "feature/x-1", "v1.2.3", "a" * 40, "release_2"])
def test_names_of_branches_tags_and_commits(name: str) -> None:
    assert is_reference(name)


@pytest.mark.parametrize(
    "name",
    [
        "-q",
        "--upload-pack=x",
        "a..b",
        "a b",
        "a\nb",
        "$(id)",
        "a;b",
        "HEAD~1",
        "HEAD@{1}",
        "x.lock",
        "/a",
        "a/",
        ":x",
        "",
    ],
)
def test_other_names_are_no_references(name: str) -> None:
    assert not is_reference(name)


def test_a_repository_is_declared_with_its_limits() -> None:
    found = declared(storage={"git": [{"repository": "https://h/r", "branch": "dev", "revision": "v1"}]})
    clone = GitClone(repository="https://h/r", branch="dev", revision="v1", timeout_s=60, size_bytes=1000)
    assert found.template.program.volumes == (Volume(target="/code", git=clone),)
    assert complaints(storage={"git": [{"repository": "ext::x", "path": "/c"}]}) == ["git.address"]
    assert complaints(storage={"git": [{"repository": "https://h/r", "branch": "--x"}]}) == ["git.branch"]
    assert complaints(storage={"git": [{"repository": "file:///etc/r"}]}) == ["volume.root"]


# --- folders of nodes


@pytest.mark.parametrize(
    ("path", "codes"),
    [
        ("/data", []),
        ("/data/a//b/", []),
        ("/mnt/shared/x", []),
        ("/database", ["volume.root"]),
        ("/mnt", ["volume.root"]),
        ("/", ["volume.root"]),
        ("/data/../etc", ["volume.dots"]),
        ("/data/a/..", ["volume.dots"]),
    ],
)
def test_only_folders_below_an_allowed_one_are_mounted(path: str, codes: list[str]) -> None:
    assert complaints(storage={"hostPath": [{"path": path, "mountPath": "/m"}]}) == codes
    assert complaints(pythonEnv=path) == codes


def test_the_allowed_folders_go_with_the_declaration_to_where_they_are_mounted() -> None:
    assert declared(pythonEnv="/data/env").template.program.host_roots == KNOWN.roots


def test_with_an_empty_list_no_folder_of_a_node_is_mounted() -> None:
    found = answer(context=StorageContext(roots=()), storage={"hostPath": [{"path": "/data", "mountPath": "/m"}]})
    assert found[0].what == "/data is not in a folder of the nodes that may be mounted (allowed: none)"


def test_mount_points_are_checked_before_a_pod_starts() -> None:
    def host(*targets: str) -> dict[str, Any]:
        return {"hostPath": [{"path": "/data", "mountPath": each} for each in targets]}

    assert complaints(storage=host("/a", "/a/")) == ["volume.twice"]
    assert complaints(storage={**host("/a"), "pvc": [{"claimName": "data", "path": "//a"}]}) == ["volume.twice"]
    assert complaints(storage=host("/a/../b")) == ["volume.dots"]
    assert complaints(storage=host("//")) == ["volume.target"]


# --- claims


def pvc(name: str, **more: Any) -> dict[str, Any]:
    return {"pvc": [{"claimName": name, "path": "/d", **more}]}


def test_a_frozen_claim_is_written_only_by_the_job_that_created_it() -> None:
    assert complaints(storage=pvc("frozen")) == ["claim.read_only"]
    read = Volume(target="/d", claim="frozen", read_only=True, access=AccessMode.READ_ONLY)
    assert declared(storage=pvc("frozen", readOnly=True)).template.program.volumes == (read,)
    assert declared("w-0", storage=pvc("frozen")).template.program.volumes[0].read_only is False


def test_a_claim_that_goes_with_its_job_is_for_that_job_alone() -> None:
    (problem,) = answer(storage=pvc("scratch"))
    assert problem.what == "claim scratch is deleted with job first and cannot be used by another"
    assert declared("w-0", storage=pvc("scratch")).template.program.volumes[0].access is AccessMode.ONE_NODE
    assert complaints(storage=pvc("leaving")) == ["claim.deleting"]


def test_there_is_one_storage_class() -> None:
    def new(**info: Any) -> dict[str, Any]:
        return pvc("new", existingPvc=False, claimInfo={"size": "1Gi", **info})

    assert complaints(storage=new(storageClass="local")) == []
    (problem,) = answer(storage=new(storageClass="trident"))
    assert problem.what == "there is no storage class 'trident'"


# --- config maps


def test_the_contents_of_a_config_map_go_with_the_job() -> None:
    variable = {"name": "A", "configMap": {"name": "cfg", "key": "a"}}
    spec = declared(storage={"configMapVolume": [{"name": "cfg", "mountPath": "/c"}]}, environmentVariables=[variable])
    program = spec.template.program
    assert program.volumes == (Volume(target="/c", files=(("a", "1"), ("b.yaml", "2")), read_only=True),)
    assert program.environment == (("A", "1"),)


def test_what_a_config_map_does_not_have_is_refused_by_name() -> None:
    def variable(**said: Any) -> list[dict[str, Any]]:
        return [{"name": "A", **said}]

    known = {"name": "cfg", "key": "a"}
    assert complaints(storage={"configMapVolume": [{"name": "x", "mountPath": "/c"}]}) == ["config_map.unknown"]
    assert complaints(environmentVariables=variable(configMap={**known, "name": "x"})) == ["config_map.unknown"]
    assert complaints(environmentVariables=variable(configMap={**known, "key": "x"})) == ["config_map.key"]
    assert complaints(environmentVariables=variable(configMap=known, value="v")) == ["spec.two_values"]
    large = StorageContext(config_maps={"cfg": {"a": "x" * 300_000}, "more": {"a": "x" * 300_000}})
    both = [{"name": name, "mountPath": f"/{name}"} for name in large.config_maps]
    assert complaints(context=large, storage={"configMapVolume": both}) == ["config_map.too_large"]


def test_variables_of_the_master_are_checked_as_those_of_the_workers() -> None:
    def refused(**said: Any) -> list[tuple[str, str | None]]:
        return of_the_master(environmentVariables=[{"name": "A", **said}])

    place, known = "spec.masterSpec.environmentVariables", {"name": "cfg", "key": "a"}
    assert refused(configMap=known) == []
    assert refused(configMap={**known, "key": "x"}) == [("config_map.key", f"{place}.configMap")]
    assert refused(configMap=known, value="v") == [("spec.two_values", place)]
    both = [("variable.two_values", place), ("credential.unknown", place)]
    assert refused(credential={"name": "c", "key": "k"}, value="v") == both
    assert refused(credential={"name": "c", "key": "k"}, configMap=known) == both


def test_values_of_config_maps_count_each_time_they_are_used() -> None:
    def variables(count: int, key: str = "a") -> list[dict[str, Any]]:
        return [{"name": f"V{number}", "configMap": {"name": "cfg", "key": key}} for number in range(count)]

    large = StorageContext(config_maps={"cfg": {"a": "x" * 100_000, "most": "x" * 131_071, "too": "ä" * 65_536}})
    mounted = {"configMapVolume": [{"name": "cfg", "mountPath": "/c"}]}
    assert complaints(context=large, environmentVariables=variables(5)) == []
    assert complaints(context=large, environmentVariables=variables(6)) == ["config_map.too_large"]
    assert complaints(context=large, environmentVariables=variables(2), storage=mounted) == ["config_map.too_large"]
    many = ["spec.too_many_words", "config_map.too_large"]
    assert complaints(context=large, environmentVariables=variables(200)) == many
    assert [code for code, _ in of_the_master(large, environmentVariables=variables(200))] == many
    assert complaints(context=large, environmentVariables=variables(1, "most")) == []
    (problem,) = answer(context=large, environmentVariables=variables(1, "too"))
    assert (problem.code, "has 131072 bytes; a variable has fewer than 131072" in problem.what) == (
        "config_map.too_long",
        True,
    )
    assert "mount it as a file" in problem.fix
