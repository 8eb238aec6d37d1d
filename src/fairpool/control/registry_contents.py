"""What an image registry has: its repositories and their tags, asked with a login.

The distribution API of registries (`/v2/`): the login itself, or a token that the registry names an issuer of. Every
request goes through `control/outbound.py`, because the address of a registry is a user's.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode, urljoin, urlsplit

from fairpool.control.outbound import OutboundAnswer, OutboundFailed, OutboundRequest, send
from fairpool.control.outbound_rules import OutboundRules
from fairpool.control.refusal import Refused, refused

PAGE: Final = 1000
PAGES_MAX: Final = 20
NAME = re.compile(r"[a-z0-9]+([._/-]+[a-z0-9]+)*")
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLogin:
    """A registry and the login for it."""

    url: str
    """As it was given: with or without a scheme."""
    user: str
    password: str = field(repr=False)
    is_private_allowed: bool = False
    """Whether it may be on this machine or in a private network, and without encryption."""

    @property
    def address(self) -> str:
        return self.url.rstrip("/") if "://" in self.url else f"https://{self.url.rstrip('/')}"

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    @property
    def rules(self) -> OutboundRules:
        if not self.is_private_allowed:
            return OutboundRules(ports=None)
        return OutboundRules(schemes=frozenset({"http", "https"}), ports=None, private=True, loopback=True)


async def repositories_of(login: RegistryLogin) -> list[str]:
    """The names of all repositories."""
    return await _listed(login, f"/v2/_catalog?n={PAGE}", "repositories", "registry:catalog:*")


async def tags_of(login: RegistryLogin, repository: str) -> list[str]:
    """The tags of a repository."""
    if not NAME.fullmatch(repository):
        what = f"{repository[:64]!r} is not the name of a repository"
        raise refused(422, "registry.repository", what, "use e.g. team/train", "repository")
    path = f"/v2/{quote(repository)}/tags/list?n={PAGE}"
    return await _listed(login, path, "tags", f"repository:{repository}:pull")


async def _listed(login: RegistryLogin, path: str, name: str, scope: str) -> list[str]:
    found: list[str] = []
    url, headers = urljoin(login.address, path), {"Authorization": login.basic}
    for _ in range(PAGES_MAX):
        answer = await _sent(login, url, headers)
        challenge = answer.headers.get("www-authenticate", "")
        if answer.status == 401 and challenge.lower().startswith("bearer "):
            headers = {"Authorization": await _token(login, challenge, scope)}
            answer = await _sent(login, url, headers)
        found += [str(each) for each in _document(login, answer).get(name) or []]
        following = re.match(r'<([^>]+)>; *rel="?next', answer.headers.get("link", ""))
        if following is None:
            return found
        url = urljoin(url, following[1])
        if urlsplit(url).netloc != urlsplit(login.address).netloc:
            raise _trouble(login, "it continues its list on another host")
    return found


async def _sent(login: RegistryLogin, url: str, headers: Mapping[str, str]) -> OutboundAnswer:
    try:
        return await send(OutboundRequest("GET", url, headers), login.rules)
    except OutboundFailed as error:
        raise refused(502, error.problem.code, error.problem.what, error.problem.fix or "try again") from error


async def _token(login: RegistryLogin, challenge: str, scope: str) -> str:
    """The token of the issuer that the registry names; the login is sent to no plain http issuer elsewhere."""
    said = dict(_PARAMETER.findall(challenge))
    realm = said.get("realm", "")
    if urlsplit(realm).scheme != "https" and urlsplit(realm).netloc != urlsplit(login.address).netloc:
        raise _trouble(login, "it sends logins to another host without encryption")
    asked = {"service": said.get("service", ""), "scope": said.get("scope", scope)}
    url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(asked)}"
    document = _document(login, await _sent(login, url, {"Authorization": login.basic}))
    token = str(document.get("token") or document.get("access_token") or "")
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise _trouble(login, "its issuer of tokens gave none")
    return f"Bearer {token}"


def _document(login: RegistryLogin, answer: OutboundAnswer) -> dict[str, Any]:
    if answer.status in (401, 403):
        raise _trouble(login, "it refused the user name or password")
    if answer.status == 404:
        raise refused(404, "registry.not_found", f"registry {login.url} does not have this", "check the name")
    try:
        found = json.loads(answer.body) if answer.status == 200 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _trouble(login, f"it answered with the status {answer.status}")
    return found


def _trouble(login: RegistryLogin, what: str) -> Refused:
    return refused(502, "registry.trouble", f"registry {login.url} cannot be listed: {what}", "check its address")
