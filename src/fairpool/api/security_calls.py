"""Calls of the client about sessions, access keys, service accounts, keys of tokens and mail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fairpool.api.calls import Calls

if TYPE_CHECKING:
    from fairpool.api import mail, programs, sessions

    Json = Mapping[str, Any]


class SecurityCalls(Calls):
    """How users and programs get in, and how they are kept out."""

    def own_sessions(self) -> list[sessions.SessionItem]:
        return self._all("/api/v1/me/sessions", "sessions")

    def end_own_session(self, session_id: str) -> None:
        self._call("DELETE", f"/api/v1/me/sessions/{session_id}")

    def end_other_sessions(self) -> int:
        """How many ended."""
        return int(self._read(self._call("DELETE", "/api/v1/me/sessions")).ended)

    def all_sessions(self, subject: str = "") -> list[sessions.SessionItem]:
        return self._all("/api/v1/sessions", "sessions", {"subject": subject} if subject else {})

    def end_session(self, session_id: str) -> None:
        self._call("DELETE", f"/api/v1/sessions/{session_id}")

    def kubernetes_token(self, cluster: str) -> sessions.KubernetesToken:
        """For the API server of a cluster, by id or name."""
        return self._post(f"/api/v1/clusters/{quote(cluster, safe='')}/kubernetes-token")

    def access_keys(self) -> list[programs.AccessKeyAnswer]:
        return self._get("/api/v1/access-keys").access_keys

    def create_access_key(self, request: programs.AccessKeyRequest | Json) -> programs.NewAccessKey:
        return self._post("/api/v1/access-keys", request)

    def new_access_key_secret(self, key: str, overlap_s: int) -> programs.NewAccessKey:
        return self._post(f"/api/v1/access-keys/{key}/secret?overlapSeconds={overlap_s}")

    def delete_access_key(self, key: str) -> None:
        self._call("DELETE", f"/api/v1/access-keys/{key}")

    def service_accounts(self) -> list[programs.Application]:
        return self._all("/api/v1/service-accounts", "serviceAccounts")

    def create_service_account(self, request: programs.ApplicationRequest | Json) -> programs.NewApplication:
        return self._post("/api/v1/service-accounts", request)

    def change_program(self, path: str, program_id: str, request: Json) -> programs.Application:
        """`path`: apps or service-accounts."""
        return self._change("PATCH", f"/api/v1/{path}/{program_id}", request, None)

    def new_program_secret(self, path: str, program_id: str, overlap_s: int) -> programs.NewApplication:
        return self._post(f"/api/v1/{path}/{program_id}/secret?overlapSeconds={overlap_s}")

    def delete_service_account(self, account_id: str) -> None:
        self._call("DELETE", f"/api/v1/service-accounts/{account_id}")

    def token_keys(self) -> list[sessions.TokenKeyAnswer]:
        found: list[sessions.TokenKeyAnswer] = self._get("/api/v1/security/token-keys")["keys"]
        return found

    def rotate_token_keys(self, *, overlap: bool) -> sessions.TokenKeyPage:
        return self._post("/api/v1/security/token-keys/rotate", {"overlap": overlap})

    def mail_settings(self) -> mail.MailSettings:
        return self._get("/api/v1/mail/settings")

    def set_mail_settings(self, request: Json) -> mail.MailSettings:
        return self._change("PUT", "/api/v1/mail/settings", request, None)

    def delete_mail_settings(self) -> None:
        self._call("DELETE", "/api/v1/mail/settings")

    def test_mail(self, to: str) -> None:
        self._post("/api/v1/mail/test", {"to": to})
