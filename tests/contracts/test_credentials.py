"""Credentials: stored encrypted, seen and used in their scope only, given to pods of workloads that refer to them."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.control.sealing import FILE, SealingKey
from fairpool.model.secret import CredentialKind
from tests.control.control_plane import ControlPlane, codes, control_plane, expect
from tests.postgresql import of_sqlite

CREDENTIALS = "/api/v1/asset/credentials"
VALUE = "hf_pa55-never-shown"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("control")


@pytest.fixture(scope="module")
def shared(data: Path) -> Iterator[ControlPlane]:
    with control_plane(data) as control:
        expect(control.call("POST", "/api/v1/org-unit/departments", {"name": "research"}), 201)
        control.project("team-a")
        control.project("team-b", parentId="research")
        control.researcher("ann", "team-a")
        control.researcher("amy", "team-a")
        control.researcher("ben", "team-b")
        yield control


@pytest.fixture
def control(shared: ControlPlane) -> Iterator[ControlPlane]:
    yield shared
    for each in expect(shared.call("GET", f"{CREDENTIALS}?limit=500"), 200)["entries"]:
        expect(shared.call("DELETE", f"{CREDENTIALS}/{each['kind']}/{each['id']}"), 204)


def body(name: str = "tokens", scope: str = "project", scope_id: str = "team-a", **more: Any) -> dict[str, Any]:
    meta = {"name": name, "scope": scope, **({f"{scope}Id": scope_id} if scope != "tenant" else {})}
    return {"meta": meta, "spec": more.pop("spec", {"data": {"hf": VALUE}}), **more}


def make(control: ControlPlane, *said: Any, kind: str = "generic-secret", by: str = "admin", **more: Any) -> Any:
    return expect(control.call("POST", f"{CREDENTIALS}/{kind}", body(*said, **more), by=by), 201)


def names(control: ControlPlane, by: str) -> list[str]:
    return [each["meta"]["name"] for each in expect(control.call("GET", CREDENTIALS, by=by), 200)["entries"]]


def variable(name: str = "tokens", key: str = "hf") -> list[dict[str, Any]]:
    return [{"name": "TOKEN", "credential": {"name": name, "key": key}}]


def submit(control: ControlPlane, project: str = "team-a", by: str = "ann", **spec: Any) -> Any:
    request = {"name": "t", "projectId": project, "spec": {"image": "quickstart", **spec}}
    answer = control.call("POST", "/api/v1/workloads/trainings?dryRun=true", request, by=by)
    return answer.json() if answer.status_code == 200 else codes(answer)


def secrets(control: ControlPlane, workload: str, *wanted: str, registry: str = "", token: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token or control.cluster_token}"}
    request = {"workload": workload, "names": list(wanted), "registry": registry}
    return control.http.post("/api/v1/cluster/secrets", json=request, headers=headers)


def test_a_credential_is_made_read_rotated_and_deleted_and_no_answer_has_its_value(control: ControlPlane) -> None:
    made = make(control)
    where = f"{CREDENTIALS}/generic-secret/{made['id']}"
    assert made["spec"]["secretKeys"] == [{"name": "hf", "bytes": len(VALUE), "isText": True}]
    assert set(made["spec"]) == {"secretKeys", "keyValuePairs", "keyId"}
    assert (made["phase"], made["clusterWide"], made["kind"]) == ("Ready", False, "generic-secret")
    assert expect(control.call("GET", where), 200) == made
    stale = {"If-Match": f'"{made["revision"] - 1}"'}
    assert control.call("PUT", where, body(), headers=stale).status_code == 412
    rotated = expect(control.call("PUT", where, body(spec={"data": {"hf": "new", "more": "x"}})), 200)
    assert [each["name"] for each in rotated["spec"]["secretKeys"]] == ["hf", "more"]
    described = body()
    del described["spec"]
    described["meta"]["description"] = "for models"
    kept = expect(control.call("PUT", where, described), 200)
    assert kept["spec"] == rotated["spec"], "without a specification the values stay"
    assert kept["meta"]["description"] == "for models"
    assert codes(control.call("PUT", where, body("other"))) == ["credential.moved"]
    assert expect(control.call("GET", f"{CREDENTIALS}/count"), 200) == {"count": 1}
    assert control.call("GET", f"{CREDENTIALS}/password/{made['id']}").status_code == 404, "of another type"
    expect(control.call("DELETE", where), 204)
    assert control.call("GET", where).status_code == 404


def test_every_type_has_its_fields(control: ControlPlane) -> None:
    said: dict[str, dict[str, Any]] = {
        "password": {"user": "u", "password": VALUE},
        "git": {"password": VALUE},
        "docker-registry": {"url": "registry.example.com", "user": "u", "password": VALUE},
        "access-key": {"accessKeyId": "AKIA", "secretAccessKey": VALUE},
        "ngc-api-key": {"ngcApiKey": VALUE},
        "generic-secret": {"data": {"a": VALUE}, "binaryData": {"b": base64.b64encode(bytes(256)).decode()}},
    }
    assert set(said) == set(CredentialKind)
    for kind, spec in said.items():
        made = make(control, kind, kind=kind, spec=spec)
        secret = set(spec.values() if "data" not in spec else spec["data"].values()) & {VALUE}
        assert secret
        assert not any(value in str(made) for value in secret)
        shown = {
            key: value for key, value in made["spec"].items() if key not in ("secretKeys", "keyValuePairs", "keyId")
        }
        assert shown == {
            key: value for key, value in {"user": "git" * (kind == "git"), **spec}.items() if key in shown and value
        }
        (listed,) = expect(control.call("GET", f"{CREDENTIALS}/{kind}"), 200)["entries"]
        assert listed == made
        missing = {key: value for key, value in spec.items() if key != list(spec)[-1]}
        if kind != "generic-secret":
            again = control.call("POST", f"{CREDENTIALS}/{kind}", body("x", spec=missing))
            assert codes(again) == ["credential.incomplete"]


def test_what_is_wrong_is_named_and_no_value_is_repeated(control: ControlPlane) -> None:
    make(control)
    wrong = {
        "credential.exists": body(),
        "credential.incomplete": body("a", spec={}),
        "credential.field": body("a", spec={"data": {"a": "b"}, "password": VALUE}),
        "credential.existing": body("a", spec={"existingSecretName": "s"}),
        "credential.base64": body("a", spec={"binaryData": {"a": f"{VALUE}!"}}),
        "credential.key_twice": body("a", spec={"data": {"a": VALUE}, "binaryData": {"a": "AAAA"}}),
        "credential.too_large": body("a", spec={"data": {"a": VALUE * 30_000, "b": VALUE * 30_000}}),
        "asset.no_scope": {**body("a"), "meta": {"name": "a", "scope": "project"}},
        "asset.two_scopes": {**body("a"), "meta": {"name": "a", "scope": "tenant", "projectId": "team-a"}},
        "project.unknown": body("a", "project", "nowhere"),
        "request.wrong_value": body("a/../b"),
    }
    for code, said in wrong.items():
        answer = control.call("POST", f"{CREDENTIALS}/generic-secret", said)
        assert (codes(answer), VALUE in answer.text) == ([code], False)
    for bad in ("a\nb", "a b", "", "x" * 64, "-a", "../../etc"):
        assert codes(control.call("POST", f"{CREDENTIALS}/generic-secret", body(bad))) == ["request.wrong_value"]
    for key in ("a/b", "..", ".", "a\nb", "", "k" * 254):
        answer = control.call("POST", f"{CREDENTIALS}/generic-secret", body("a", spec={"data": {key: VALUE}}))
        assert (codes(answer), VALUE in answer.text) == (["request.wrong_value"], False)
    for value in (7, None, ["x"], "x" * (1 << 20 | 1)):
        answer = control.call("POST", f"{CREDENTIALS}/generic-secret", body("a", spec={"data": {"a": value}}))
        assert codes(answer) == ["request.wrong_value"]
    huge = control.call("POST", f"{CREDENTIALS}/generic-secret", body("a", spec={"data": {"a": "x" * (2 << 20)}}))
    assert (huge.status_code, codes(huge)) == (413, ["request.too_large"])
    assert codes(control.call("POST", f"{CREDENTIALS}/nonesuch", body("a"))) == ["credential.no_kind"]


def test_the_file_of_the_database_has_no_value_and_rows_cannot_be_exchanged(control: ControlPlane, data: Path) -> None:
    made = make(control, spec={"data": {"hf": VALUE}})
    control.call(
        "POST",
        f"{CREDENTIALS}/generic-secret",
        body("a", spec={"data": {"a": VALUE}}),
        headers={"Idempotency-Key": "k"},
    )
    everything = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert VALUE.encode() not in everything
    assert base64.b64encode(VALUE.encode()) not in everything
    assert (data / FILE).stat().st_mode & 0o777 == 0o600
    key = SealingKey(bytes(32))
    sealed = key.seal({"a": b"1"}, made["id"])
    assert key.unseal(sealed, made["id"]) == {"a": b"1"}
    assert key.unseal(sealed, "another") is None
    assert SealingKey(bytes(31) + b"1").unseal(sealed, made["id"]) is None
    assert key.seal({"a": b"1"}, made["id"]) != sealed, "the same value does not look the same"


def test_a_credential_is_seen_and_used_in_its_scope_only(control: ControlPlane) -> None:
    for scope, scope_id in (("tenant", ""), ("department", "research"), ("project", "team-a"), ("cluster", "local")):
        make(control, f"of-{scope}", scope, scope_id)
    assert names(control, "admin") == ["of-cluster", "of-department", "of-project", "of-tenant"]
    assert names(control, "ann") == ["of-cluster", "of-project", "of-tenant"]
    assert names(control, "ben") == ["of-cluster", "of-department", "of-tenant"]
    (hidden,) = expect(control.call("GET", f"{CREDENTIALS}?name=of-project"), 200)["entries"]
    assert control.call("GET", f"{CREDENTIALS}/generic-secret/{hidden['id']}", by="ben").status_code == 404
    assert control.call("DELETE", f"{CREDENTIALS}/generic-secret/{hidden['id']}", by="ben").status_code == 404
    foreign = submit(control, "team-b", "ben", environmentVariables=variable("of-project"))
    assert foreign == ["credential.unknown"] == submit(control, environmentVariables=variable("nonesuch"))
    assert "name" in submit(control, environmentVariables=variable("of-project"))


def test_a_researcher_makes_credentials_of_the_project_and_changes_only_those(control: ControlPlane) -> None:
    own = make(control, "mine", by="ann")
    admins = make(control, "admins")
    for scope, scope_id in (("tenant", ""), ("department", "research"), ("cluster", "local"), ("project", "team-b")):
        answer = control.call("POST", f"{CREDENTIALS}/generic-secret", body("x", scope, scope_id), by="ann")
        assert answer.status_code == 403
    wide = control.call("POST", f"{CREDENTIALS}/generic-secret", body("x", clusterWide=True), by="ann")
    assert wide.status_code == 403
    for made, by, status in ((own, "amy", 403), (admins, "ann", 403), (own, "ann", 200), (own, "admin", 200)):
        where = f"{CREDENTIALS}/generic-secret/{made['id']}"
        assert control.call("PUT", where, body(made["meta"]["name"]), by=by).status_code == status
    assert control.call("DELETE", f"{CREDENTIALS}/generic-secret/{own['id']}", by="amy").status_code == 403
    assert names(control, "amy") == ["admins", "mine"], "the members of a project share its credentials"


def test_a_submit_refers_to_what_is_there_and_fits(control: ControlPlane) -> None:
    make(control, spec={"data": {"hf": VALUE, "long": "x" * 140_000}, "binaryData": {"bin": "AAA="}})
    make(control, "login", kind="password", spec={"user": "u", "password": VALUE})
    assert submit(control, environmentVariables=variable(key="nonesuch")) == ["credential.key"]
    assert submit(control, environmentVariables=variable(key="bin")) == ["credential.binary"]
    assert submit(control, environmentVariables=variable(key="long")) == ["credential.too_long"]
    both = [{**variable()[0], "value": "x"}]
    assert submit(control, environmentVariables=both) == ["variable.two_values"]
    assert submit(control, storage={"secretVolume": [{"name": "no", "mountPath": "/s"}]}) == ["credential.unknown"]
    git = {"git": [{"repository": "r", "credential": "tokens"}]}
    assert "credential.kind" in submit(control, storage=git)
    shown = submit(
        control, environmentVariables=variable(), storage={"secretVolume": [{"name": "tokens", "mountPath": "/s"}]}
    )
    assert shown["spec"]["environmentVariables"] == variable()
    assert VALUE not in str(shown)


def test_a_cluster_gets_what_its_workloads_refer_to_and_nothing_else(control: ControlPlane) -> None:
    make(control)
    make(control, "other")
    made = control.train("t1", by="ann", environmentVariables=variable())
    (given,) = expect(secrets(control, made["workloadId"], "tokens"), 200)["secrets"]
    assert (given["name"], given["kind"], base64.b64decode(given["data"]["hf"]).decode()) == (
        "tokens",
        "generic-secret",
        VALUE,
    )
    answer = expect(secrets(control, made["workloadId"], "other"), 200)
    assert (answer["secrets"], [each["code"] for each in answer["missing"]]) == ([], ["credential.gone"])
    assert secrets(control, "nonesuch", "tokens").status_code == 404
    assert secrets(control, made["workloadId"], "tokens", token=control.tokens["ann"]).status_code == 403
    assert secrets(control, made["workloadId"], "tokens", token=control.tokens["admin"]).status_code == 403
    east = expect(control.call("POST", "/api/v1/clusters", {"name": "east"}), 201)
    assert secrets(control, made["workloadId"], "tokens", token=east["token"]).status_code == 404
    pulled = control.pull()
    assert VALUE not in pulled.to_json()
    expect(control.call("DELETE", f"/api/v1/workloads/trainings/{made['workloadId']}"), 202)


def test_the_narrowest_scope_counts_and_what_was_deleted_is_said(control: ControlPlane) -> None:
    make(control, "tokens", "tenant", "", spec={"data": {"hf": "wide"}})
    made = control.train("t2", by="ann", environmentVariables=variable())

    def value() -> str:
        (given,) = expect(secrets(control, made["workloadId"], "tokens"), 200)["secrets"]
        return base64.b64decode(given["data"]["hf"]).decode()

    assert value() == "wide"
    narrow = make(control, spec={"data": {"hf": "narrow"}})
    assert value() == "narrow"
    expect(control.call("DELETE", f"{CREDENTIALS}/generic-secret/{narrow['id']}"), 204)
    assert value() == "wide"
    (wide,) = expect(control.call("GET", CREDENTIALS), 200)["entries"]
    expect(control.call("DELETE", f"{CREDENTIALS}/generic-secret/{wide['id']}"), 204)
    (missing,) = expect(secrets(control, made["workloadId"], "tokens"), 200)["missing"]
    assert missing["what"] == "project team-a has no credential tokens any more"
    assert missing["fix"].startswith("create it again: runai-adm credential create tokens -p team-a")


def test_a_credential_for_all_projects_can_be_used_everywhere(control: ControlPlane) -> None:
    made = make(control, clusterWide=True)
    assert names(control, "ben") == ["tokens"]
    assert "name" in submit(control, "team-b", "ben", environmentVariables=variable())
    where = f"{CREDENTIALS}/generic-secret/{made['id']}"
    expect(control.call("PUT", where, body(clusterWide=False)), 200)
    assert names(control, "ben") == []


def test_the_login_of_a_registry_is_found_by_the_host_of_the_image(control: ControlPlane) -> None:
    login = {"url": "https://Registry.example.com:5000/v2/", "user": "u", "password": VALUE}
    make(control, "hub", kind="docker-registry", spec=login)
    image = "registry.example.com:5000/team/train:1"
    body = {"name": "t3", "projectId": "team-a", "spec": {"image": image}, "waitAnyway": True}
    made = expect(control.call("POST", "/api/v1/workloads/trainings", body, by="ann"), 202)
    found = expect(secrets(control, made["workloadId"], registry="registry.example.com:5000"), 200)["registry"]
    assert base64.b64decode(found["data"]["password"]).decode() == VALUE
    assert "registry" not in expect(secrets(control, made["workloadId"], registry="docker.io"), 200)
    plain = control.train("t4", by="ann")
    assert "registry" not in expect(secrets(control, plain["workloadId"], registry="registry.example.com:5000"), 200), (
        "its image is from elsewhere"
    )


@of_sqlite
def test_with_another_key_values_are_lost_and_can_be_set_again(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        control.researcher("ann", "team-a")
        made = make(control)
        workload = control.train("t1", by="ann", environmentVariables=variable())["workloadId"]
    (tmp_path / FILE).unlink()
    with control_plane(tmp_path) as control:
        control.sign_in("ann", "ann@example.com", "correct horse")
        (listed,) = expect(control.call("GET", CREDENTIALS), 200)["entries"]
        assert listed["phase"] == "Unreadable"
        assert submit(control, environmentVariables=variable()) == ["credential.unreadable"]
        (missing,) = expect(secrets(control, workload, "tokens"), 200)["missing"]
        assert missing["code"] == "credential.unreadable"
        again = expect(control.call("PUT", f"{CREDENTIALS}/generic-secret/{made['id']}", body()), 200)
        assert (again["phase"], again["status"]) == ("Ready", {"status": "No issues found"})
        assert expect(secrets(control, workload, "tokens"), 200)["missing"] == []


@of_sqlite
def test_a_key_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("not a key\n", encoding="ascii")
    with control_plane(tmp_path) as control:
        control.project("team-a")
        answer = control.call("POST", f"{CREDENTIALS}/generic-secret", body())
        assert (answer.status_code, codes(answer)) == (503, ["credential.key_file"])
        assert expect(control.call("GET", CREDENTIALS), 200)["entries"] == []


def test_the_credentials_of_a_project_are_deleted_with_it(control: ControlPlane) -> None:
    control.project("team-c", clusterId=control.cluster)
    make(control, "tokens", "project", "team-c")
    assert control.call("DELETE", "/api/v1/org-unit/projects/team-c").status_code < 300
    assert names(control, "admin") == []


def test_ten_thousand_credentials_are_listed_by_the_page(tmp_path: Path) -> None:
    from fairpool.control.store import credentials as store
    from fairpool.control.store.database import Connection

    with control_plane(tmp_path) as control:
        control.project("team-a")
        control.researcher("ann", "team-a")
        first = make(control, "c-00000")

        def fill(connection: Connection) -> None:
            row = store.one(connection, first["id"])._asdict()
            for number in range(1, 10_000):
                scope_id = "team-a" if number % 2 else "team-b"
                store.add(
                    connection,
                    **{**row, "id": f"i{number}", "name": f"c-{number:05}", "scope_id": scope_id, "sealed": ""},
                )

        assert control.http.portal is not None
        control.http.portal.call(control.app.state.plane.write, fill)
        begun = time.process_time()
        page = expect(control.call("GET", f"{CREDENTIALS}?offset=4000&limit=50", by="ann"), 200)
        assert [each["meta"]["name"] for each in page["entries"]][:2] == ["c-07999", "c-08001"]
        assert page["next"] == 4050
        assert time.process_time() - begun < 1.0
        assert expect(control.call("GET", f"{CREDENTIALS}/count", by="ann"), 200) == {"count": 5001}
        last = expect(control.call("GET", f"{CREDENTIALS}?search=09999&sortBy=updatedAt&sortOrder=desc"), 200)
        assert [each["meta"]["name"] for each in last["entries"]] == ["c-09999"]


def test_a_template_refers_to_a_credential_and_has_no_value_of_one(control: ControlPlane) -> None:
    make(control)
    templates = "/api/v1/asset/workload-template"
    meta = {"name": "batch", "scope": "project", "projectId": "team-a"}
    for name in ("HF_TOKEN", "db_password", "AWS_SECRET_ACCESS_KEY", "apiKey"):
        spec = {"environmentVariables": [{"name": name, "value": VALUE}]}
        answer = control.call("POST", templates, {"meta": meta, "spec": spec})
        assert (codes(answer), VALUE in answer.text) == (["template.secret_value"], False)
    spec = {"environmentVariables": [*variable(), {"name": "TOKENIZER", "value": "bpe"}]}
    made = expect(control.call("POST", templates, {"meta": meta, "spec": spec}), 201)
    assert made["spec"]["environmentVariables"][0] == variable()[0]
    workload = control.train("t5", by="ann", template="batch")["workloadId"]
    (given,) = expect(secrets(control, workload, "tokens"), 200)["secrets"]
    assert base64.b64decode(given["data"]["hf"]).decode() == VALUE
    expect(control.call("DELETE", f"{templates}/{made['id']}"), 204)
    expect(control.call("DELETE", f"/api/v1/workloads/trainings/{workload}"), 202)
