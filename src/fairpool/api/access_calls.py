"""Calls of the client about sign-in, users, roles and applications, and the audit log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fairpool.api.calls import Calls, plain_body
from fairpool.api.record import parse_list

if TYPE_CHECKING:
    from fairpool.api import access, authorization, command_sign_in, programs
    from fairpool.api import audit as audit_wire
    from fairpool.api import identity_providers as providers
    from fairpool.api import notifications as notes

    Json = Mapping[str, Any]


DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class AccessCalls(Calls):
    """Who may do what, and who did."""

    def sign_in(self, username: str, password: str) -> access.TokenAnswer:
        """Exchange a password for a token, and use it from now on."""
        return self._token({"grantType": "password", "username": username, "password": password})

    def sign_in_application(self, client_id: str, client_secret: str) -> access.TokenAnswer:
        return self._token({"grantType": "client_credentials", "clientId": client_id, "clientSecret": client_secret})

    def renew(self, refresh_token: str) -> access.TokenAnswer:
        return self._token({"grantType": "refresh_token", "refreshToken": refresh_token})

    def sign_in_ways(self) -> command_sign_in.SignInWays:
        return self._get("/api/v1/sign-in/ways")

    def sign_in_by_code(self, code: str, verifier: str) -> access.TokenAnswer:
        """Exchange a code that a browser was given for a token."""
        return self._token({"grantType": "authorization_code", "code": code, "codeVerifier": verifier})

    def begin_device_sign_in(self) -> command_sign_in.DeviceAuthorization:
        return self._read(self._call("POST", "/api/v1/sign-in/device"))

    def sign_in_by_device(self, device_code: str) -> access.TokenAnswer:
        """Refused with `access.authorization_pending` until it is approved."""
        return self._token({"grantType": DEVICE_GRANT, "deviceCode": device_code})

    def sign_out(self) -> None:
        """Revoke the token."""
        self._call("POST", "/api/v1/me/logout")
        self.token = None

    def me(self) -> access.Me:
        return self._get("/api/v1/me")

    def change_password(self, current: str, new: str) -> None:
        self._call("POST", "/api/v1/me/password", {"currentPassword": current, "newPassword": new})

    def users(self) -> list[access.User]:
        return self._all("/api/v1/users", "users")

    def create_user(self, request: access.UserRequest | Json) -> access.NewUser:
        return self._post("/api/v1/users", request)

    def delete_user(self, user_id: str) -> None:
        self._call("DELETE", f"/api/v1/users/{user_id}")

    def reset_password(self, user_id: str) -> str:
        """A new password that must be changed at the next sign-in."""
        return self._post(f"/api/v1/users/{user_id}/password").temp_password

    def roles(self) -> list[authorization.Role]:
        return self._all("/api/v1/authorization/roles", "roles")

    def create_role(self, request: Json) -> authorization.Role:
        return self._post("/api/v1/authorization/roles", request)

    def update_role(self, role_id: int, request: Json) -> authorization.Role:
        return self._read(self._call("PATCH", f"/api/v1/authorization/roles/{role_id}", request))

    def delete_role(self, role_id: int) -> None:
        self._call("DELETE", f"/api/v1/authorization/roles/{role_id}")

    def disable_user(self, user_id: str, disabled: bool) -> access.User:
        """Its sessions end at once."""
        return self._read(self._call("PATCH", f"/api/v1/users/{user_id}", {"disabled": disabled}))

    def access_rule(self, rule_id: str) -> access.AccessRule:
        return self._get(f"/api/v1/authorization/access-rules/{rule_id}")

    def access_rules(self) -> list[access.AccessRule]:
        return self._all("/api/v1/authorization/access-rules", "accessRules")

    def create_access_rule(self, request: access.AccessRuleRequest | Json) -> access.AccessRule:
        return self._post("/api/v1/authorization/access-rules", request)

    def create_access_rules(self, requests: Sequence[access.AccessRuleRequest | Json]) -> access.AccessRuleBatchAnswer:
        body = {"payload": [plain_body(each) for each in requests]}
        return self._post("/api/v1/authorization/access-rules/batch-create", body)

    def delete_access_rules(self, ids: Sequence[str | int]) -> access.AccessRuleBatchAnswer:
        return self._post(
            "/api/v1/authorization/access-rules/batch", {"ids": [str(each) for each in ids], "action": "delete"}
        )

    def delete_access_rule(self, rule_id: str | int) -> None:
        self._call("DELETE", f"/api/v1/authorization/access-rules/{rule_id}")

    def applications(self) -> list[programs.Application]:
        return self._all("/api/v1/apps", "apps")

    def create_application(self, request: programs.ApplicationRequest | Json) -> programs.NewApplication:
        return self._post("/api/v1/apps", request)

    def new_application_secret(self, application_id: str) -> programs.NewApplication:
        """Its earlier secret is revoked."""
        return self._post(f"/api/v1/apps/{application_id}/secret")

    def delete_application(self, application_id: str) -> None:
        self._call("DELETE", f"/api/v1/apps/{application_id}")

    def identity_providers(self) -> list[providers.IdentityProvider]:
        found: list[providers.IdentityProvider] = parse_list(self._call("GET", "/api/v1/idps").content)
        return found

    def create_identity_provider(self, request: Json) -> providers.IdentityProviderName:
        return self._post("/api/v1/idps", request)

    def update_identity_provider(self, alias: str, request: Json) -> providers.IdentityProvider:
        return self._read(self._call("PUT", f"/api/v1/idps/{alias}", request))

    def test_identity_provider(self, alias: str) -> providers.ProviderTest:
        return self._read(self._call("POST", f"/api/v1/idps/{alias}/test"))

    def link_account(self, alias: str, request: Json) -> None:
        """Let an account of the provider sign in as an existing user."""
        self._call("POST", f"/api/v1/idps/{alias}/links", request)

    def unlink_account(self, alias: str, user: str) -> None:
        """The user's account at the provider no longer signs in as the user."""
        self._call("DELETE", f"/api/v1/idps/{alias}/links/{quote(user, safe='')}")

    def delete_identity_provider(self, alias: str) -> None:
        self._call("DELETE", f"/api/v1/idps/{alias}")

    def audit(self, *, limit: int = 50, offset: int = 0, **query: str) -> list[audit_wire.AuditEntry]:
        """Newest first; `query`: what the API takes besides, as filterBy or start."""
        return self._get("/api/v1/audit/log", {"limit": limit, "offset": offset, **query}).entries

    def audit_file(self, **query: str) -> AbstractContextManager[Iterator[bytes]]:
        """The whole log, piece by piece."""
        return self._stream("GET", "/api/v1/audit/log/file", params=query)

    def subscriptions(self) -> list[notes.Subscription]:
        found: list[notes.Subscription] = self._get("/api/v1/subscriptions")
        return found

    def subscribe(self, body: Json) -> notes.Subscription:
        return self._post("/api/v1/subscriptions", body)

    def unsubscribe(self, subscription: str) -> None:
        self._call("DELETE", f"/api/v1/subscriptions/{subscription}")

    def notifications(self, *, limit: int = 50) -> list[notes.Delivery]:
        return self._get("/api/v1/notifications", {"limit": limit}).deliveries

    def webhooks(self) -> list[notes.Webhook]:
        return self._get("/api/v1/notification-webhooks").webhooks

    def add_webhook(self, body: Json) -> notes.NewWebhook:
        return self._post("/api/v1/notification-webhooks", body)

    def delete_webhook(self, name: str) -> None:
        self._call("DELETE", f"/api/v1/notification-webhooks/{name}")

    def verify_audit(self, known: str | None = None) -> audit_wire.AuditVerification:
        return self._get("/api/v1/audit/verify", {"known": known} if known is not None else None)

    def _token(self, request: Mapping[str, str]) -> access.TokenAnswer:
        self.token = None
        answer = self._read(self._call("POST", "/api/v1/token", request))
        self.token = answer.access_token
        return answer
