"""Tokens, applications, service accounts, access keys and security settings."""

from __future__ import annotations

from typing import Any

from tests.client.original import Original


def _is_refused(original: Original, client_id: str, secret: str) -> bool:
    body = {"grantType": "client_credentials", "clientID": client_id, "clientSecret": secret}
    return "wrong client ID or secret" in original.refused("TokensApi.grant_token", 401, token_request=body)


def _sign_in(original: Original, client_id: str, secret: str) -> Any:
    body = {"grantType": "client_credentials", "clientID": client_id, "clientSecret": secret}
    return original.call("TokensApi.grant_token", token_request=body)


def case_applications(original: Original) -> None:
    made = original.call("ApplicationsApi.create_application", application_creation_request={"name": "prog-app"})
    assert _sign_in(original, made["clientId"], made["secret"])["expiresIn"] > 0
    older = {"id": made["id"], "name": made["name"], "secret": made["secret"]}
    assert original.call("TokensApi.app_token", app_token_request=older)["access_token"].count(".") == 2
    found = original.call("ApplicationsApi.get_application_by_id", app_id=made["id"])
    assert (found["name"], found["enabled"], found["lastLogin"] is None) == ("prog-app", True, False)
    assert made["id"] in [each["id"] for each in original.call("ApplicationsApi.get_applications")]
    changed = original.call(
        "ApplicationsApi.update_application_by_id", app_id=made["id"], application_patch_request={"enabled": False}
    )
    assert changed["enabled"] is False
    original.call(
        "ApplicationsApi.update_application_by_id", app_id=made["id"], application_patch_request={"enabled": True}
    )
    renewed = original.call("ApplicationsApi.regenerate_application_secret", app_id=made["id"])
    assert _is_refused(original, made["clientId"], made["secret"])
    _sign_in(original, made["clientId"], renewed["secret"])
    original.call("ApplicationsApi.delete_application_by_id", app_id=made["id"])
    assert _is_refused(original, made["clientId"], renewed["secret"])


def case_service_accounts(original: Original) -> None:
    body = {"name": "prog-account"}
    made = original.call("ServiceAccountsApi.create_service_account", service_account_creation_request=body)
    named = {"service_account_id": made["id"]}
    _sign_in(original, made["clientId"], made["clientSecret"])
    assert original.call("ServiceAccountsApi.get_service_account_by_id", **named)["lastLogin"] is not None
    assert made["id"] in [each["id"] for each in original.call("ServiceAccountsApi.get_service_accounts")]
    for enabled in (False, True):
        patch = {"enabled": enabled}
        changed = original.call(
            "ServiceAccountsApi.update_service_account_by_id", **named, service_account_patch_request=patch
        )
        assert changed["enabled"] is enabled
    renewed = original.call("ServiceAccountsApi.regenerate_service_account_secret", **named)
    assert _is_refused(original, made["clientId"], made["clientSecret"])
    _sign_in(original, made["clientId"], renewed["clientSecret"])
    original.call("ServiceAccountsApi.delete_service_account_by_id", **named)
    assert _is_refused(original, made["clientId"], renewed["clientSecret"])


def case_access_keys(original: Original) -> None:
    made = original.call("AccessKeysApi.create_access_key1", access_key_creation_request1={"name": "prog-key"})
    named = {"access_key_id": made["id"]}
    _sign_in(original, made["clientId"], made["clientSecret"])
    assert original.call("AccessKeysApi.get_access_key_by_id1", **named)["lastLogin"] is not None
    assert made["id"] in [each["id"] for each in original.call("AccessKeysApi.get_access_keys")["accessKeys"]]
    renewed = original.call("AccessKeysApi.regenerate_access_key_secret", **named)
    assert _is_refused(original, made["clientId"], made["clientSecret"])
    _sign_in(original, made["clientId"], renewed["clientSecret"])
    everyone = original.call("AccessKeysApi.get_access_keys_administration", client_id=made["clientId"])
    assert [each["name"] for each in everyone["accessKeys"]] == ["prog-key"]
    original.call("AccessKeysApi.delete_access_key_by_id", **named)
    assert _is_refused(original, made["clientId"], renewed["clientSecret"])
    made = original.call("AccessKeysApi.create_access_key1", access_key_creation_request1={"name": "prog-key"})
    original.call("AccessKeysApi.delete_access_key_by_id_administration", access_key_id=made["id"])
    assert _is_refused(original, made["clientId"], made["clientSecret"])


def case_user_applications(original: Original) -> None:
    body = {"user_app_creation_request": {"name": "prog-user-app"}}
    made = original.call("UserApplicationsApi.create_user_application", **body)
    named = {"app_id": made["id"]}
    _sign_in(original, made["clientId"], made["secret"])
    assert original.call("UserApplicationsApi.get_user_application_by_id", **named)["lastLogin"] is not None
    assert made["id"] in [each["id"] for each in original.call("UserApplicationsApi.get_user_applications")]
    everyone = original.call("UserApplicationsApi.get_user_applications_administration", client_id=made["clientId"])
    assert [each["id"] for each in everyone] == [made["id"]]
    renewed = original.call("UserApplicationsApi.regenerate_user_application_secret", **named)
    assert _is_refused(original, made["clientId"], made["secret"])
    _sign_in(original, made["clientId"], renewed["secret"])
    original.call("UserApplicationsApi.delete_user_application_by_id", **named)
    made = original.call("UserApplicationsApi.create_user_application", **body)
    original.call("UserApplicationsApi.delete_user_application_by_id_administration", app_id=made["id"])
    assert _is_refused(original, made["clientId"], made["secret"])


def case_security_settings(original: Original) -> None:
    """The client cannot send this setting: of the models it may be, it always chooses the first, which has no limit."""
    listed = original.call("SettingsApi.get_security_settings")["browserSessionTimeout"]["idleTimeout"]
    found = original.call("SettingsApi.get_security_setting_by_key", key="browserSessionTimeout")
    assert found["idleTimeout"] == listed == 480
