"""Users and their passwords, roles, permissions and access rules."""

from __future__ import annotations

from typing import Any

from tests.client.original import Original

ADMINISTRATOR = "System administrator"


def _signed_in(original: Original, email: str, password: str) -> str:
    """The access token of a user."""
    body = {"grantType": "password", "username": email, "password": password, "clientID": "runai"}
    return str(original.call("TokensApi.grant_token", token_request=body)["accessToken"])


def _user(original: Original, email: str) -> Any:
    return original.call("UsersApi.create_user", user_creation_request1={"email": email, "resetPassword": True})


def case_users(original: Original) -> None:
    made = _user(original, "acc-ann@example.com")
    named = {"user_id": made["id"]}
    found = original.call("UsersApi.get_user_by_id", **named)
    assert (found["username"], found["isLocal"], found["lastLogin"]) == ("acc-ann@example.com", True, None)
    listed = original.call("UsersApi.get_users", search="acc-ann", sort_by="username", sort_order="desc")
    assert [each["id"] for each in listed] == [made["id"]]
    assert original.call("UsersApi.count_users", filter_by=["username==acc-ann@example.com"]) == {"count": 1}
    token = _signed_in(original, made["username"], made["tempPassword"])
    chosen = {"currentPassword": made["tempPassword"], "newPassword": "long enough-4"}
    with original.signed_in_as(token):
        assert "password" in original.refused("UsersApi.get_users", 403), "the first one has to be changed first"
        original.call("UsersApi.change_user_password", user_change_password_request=chosen)
    token = _signed_in(original, made["username"], "long enough-4")
    assert original.call("UsersApi.get_user_by_id", **named)["lastLogin"] is not None
    original.call("UsersApi.logout_user", **named)
    with original.signed_in_as(token):
        original.refused("MeApi.get_me_access_rules", 401)
    reset = original.call("UsersApi.reset_user_password", **named)["tempPassword"]
    original.refused(
        "TokensApi.grant_token",
        401,
        token_request={
            "grantType": "password",
            "username": made["username"],
            "password": "long enough-4",
            "clientID": "runai",
        },
    )
    _signed_in(original, made["username"], reset)
    original.call("UsersApi.delete_user_by_id", **named)
    assert original.call("UsersApi.count_users", search="acc-ann") == {"count": 0}


def case_tokens_by_form(original: Original) -> None:
    """The client takes the fields of the form, and sends none of them."""
    original.never("TokensApi.grant_token_v2", 400, grant_type="client_credentials", client_id="a", client_secret="b")


def case_roles_and_permissions(original: Original) -> None:
    listed = original.call("RolesApi.get_roles_v1")
    (administrator,) = [each for each in listed if each["name"] == ADMINISTRATOR]
    assert not administrator["custom"]
    found = original.call("RolesApi.get_role_v1", role_id_path=administrator["id"])
    assert found == administrator
    mine = {each["resourceType"]: each["actions"] for each in original.call("PermissionsApi.get_permissions")}
    assert mine == {each["resourceType"]: each["actions"] for each in administrator["permissions"]}
    asked = {"resourceType": "project", "action": "create"}
    scopes = original.call("PermissionsApi.get_permitted_scopes", get_permitted_scopes_request=asked)
    assert scopes["create"]["tenants"]


def case_access_rules(original: Original) -> None:
    roles = {each["name"]: each["id"] for each in original.call("RolesApi.get_roles_v1")}
    ann, ben = (_user(original, f"acc-rule-{name}@example.com") for name in ("ann", "ben"))
    project = original.call(
        "ProjectsApi.create_project",
        project_creation_request={"name": "acc-rules", "clusterId": original.cluster, "resources": []},
    )
    project_scope = {"scopeId": project["id"], "scopeType": "project"}
    body = {"subjectId": ann["username"], "subjectType": "user", "roleId": roles["Viewer"], **project_scope}
    made = original.call("AccessRulesApi.create_access_rule", access_rule_creation_fields=body)
    assert (made["roleName"], made["scopeName"]) == ("Viewer", "acc-rules")
    found = original.call("AccessRulesApi.get_access_rule", access_rule_id=made["id"])
    assert found["id"] == made["id"]
    _check_what_a_rule_gives(original, ann)
    batch = {
        "roleId": roles["Editor"],
        "subjects": [{"subjectId": each["username"], "subjectType": "user"} for each in (ann, ben)],
        "scopes": [project_scope],
    }
    done = original.call(
        "AccessRulesApi.access_rules_batch_create", access_rules_batch_create_fields={"payload": batch}
    )
    assert [each["roleName"] for each in done["succeeded"]] == ["Editor", "Editor"]
    listed = original.call("AccessRulesApi.get_access_rules", scope_type="project", scope_id="acc-rules")
    assert listed["totalRecords"] == 3
    only = {"filter_by": ["roleName==Editor", "scopeName==acc-rules"]}
    assert original.call("AccessRulesApi.count_access_rules", **only) == {"count": 2}
    ids = [str(each["id"]) for each in done["succeeded"]]
    fields = {"ids": [*ids, "987654321"], "action": "validate_delete"}
    tried = original.call("AccessRulesApi.access_rules_batch", access_rules_batch_fields=fields)
    assert (len(tried["succeeded"]), [each["code"] for each in tried["failed"]]) == (2, [404])
    assert original.call("AccessRulesApi.count_access_rules", **only) == {"count": 2}, "nothing was deleted"
    gone = original.call("AccessRulesApi.access_rules_batch", access_rules_batch_fields={**fields, "action": "delete"})
    assert (sorted(gone["succeeded"]), len(gone["failed"])) == (sorted(ids), 1)
    original.call("AccessRulesApi.delete_access_rule", access_rule_id=made["id"])
    assert original.call("AccessRulesApi.get_access_rules", scope_id="acc-rules")["accessRules"] == []
    original.call("ProjectsApi.delete_project", project_id=project["id"])


def _check_what_a_rule_gives(original: Original, user: Any) -> None:
    """Its subject sees the project, and nothing of the others."""
    token = _signed_in(original, user["username"], user["tempPassword"])
    chosen = {"currentPassword": user["tempPassword"], "newPassword": "long enough-5"}
    with original.signed_in_as(token):
        original.call("UsersApi.change_user_password", user_change_password_request=chosen)
    with original.signed_in_as(_signed_in(original, user["username"], "long enough-5")):
        listed = original.call("ProjectsApi.get_projects")["projects"]
        assert [each["name"] for each in listed] == ["acc-rules"]
        mine = original.call("MeApi.get_me_access_rules")["accessRules"]
        assert [(each["roleName"], each["scopeName"]) for each in mine["accessRules"]] == [("Viewer", "acc-rules")]
        assert original.call("MeApi.count_me_access_rules") == {"count": 1}


def case_administrators_of_a_department(original: Original) -> None:
    ann, ben = (_user(original, f"acc-dep-{name}@example.com")["username"] for name in ("ann", "ben"))
    body = {"name": "acc-department", "clusterId": original.cluster, "resources": []}
    original.call("DepartmentsApi.create_department", department_creation_request=body)
    older = original.call("DepartmentsApi.get_departments_0", cluster_id=original.cluster)
    (number,) = [each["id"] for each in older if each["name"] == "acc-department"]
    for wanted in ([ann, ben], [ben], []):
        said = {"departmentId": number, "departmentAdmins": wanted}
        place = {"cluster_id": original.cluster, "department_id": number}
        original.call("DepartmentsApi.update_department_admins", department_access_control=said, **place)
        rules = original.call("AccessRulesApi.get_access_rules", scope_type="department", scope_id="acc-department")
        there = sorted((each["subjectName"], each["roleName"]) for each in rules["accessRules"])
        assert there == [(each, "Department administrator") for each in wanted]
    original.call("DepartmentsApi.delete_department", department_id="acc-department")


def case_download_of_the_audit_log(original: Original) -> None:
    _user(original, "acc-audit@example.com")
    period = {"start": "2020-01-01T00:00:00+00:00", "end": "2999-01-01T00:00:00+00:00"}
    listed = original.call("AuditLogsApi.download_audit_logs", file_type="JSON", **period)
    assert "acc-audit@example.com" in [each.get("entity_name") for each in listed]
