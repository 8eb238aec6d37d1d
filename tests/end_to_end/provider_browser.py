"""A browser without a screen or scripts, for sign-ins at Keycloak: it follows redirects and fills in forms."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import httpx2

from tests.running_platform import PATIENCE_S

COOKIE = "fairpool_session"


@dataclass
class Browser:
    """One person's browser."""

    address: str
    http: httpx2.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = httpx2.Client(follow_redirects=True, timeout=PATIENCE_S, trust_env=False)
        # As Chromium does on loopback, where Keycloak marks its cookies as for secure connections only.
        self.http.cookies.jar.set_policy(DefaultCookiePolicy(secure_protocols=("https", "http")))

    def open(self, path: str) -> httpx2.Response:
        return self.http.get(path if path.startswith("http") else self.address + path)

    def submit(self, page: httpx2.Response, **fields: str) -> httpx2.Response:
        """The first form of a page, with its hidden fields."""
        form = re.search(r"<form[^>]*?action=\"([^\"]*)\"[^>]*>(.*?)</form>", page.text, re.DOTALL | re.IGNORECASE)
        assert form is not None, page.text
        hidden = re.findall(r"<input[^>]*type=\"hidden\"[^>]*>", form[2], re.IGNORECASE)
        values = {_attribute(each, "name"): _attribute(each, "value") for each in hidden}
        there = page.url.join(html.unescape(form[1]))
        headers = {"Origin": f"{page.url.scheme}://{page.url.netloc.decode()}"}
        return self.http.post(there, data={**values, **fields}, headers=headers)

    def sign_in(self, alias: str, name: str, following: str = "/") -> httpx2.Response:
        """With an account of Keycloak; the page where it ends."""
        page = self.open(f"/sign-in/with/{alias}?next={following}")
        if 'name="password"' in page.text:
            page = self.submit(page, username=name, password=f"secret-{name}")
        if "SAMLResponse" in page.text:  # a page that submits itself
            page = self.submit(page)
        return page

    @property
    def token(self) -> str:
        """Of its session."""
        return next((each.value or "" for each in self.http.cookies.jar if each.name == COOKIE), "")

    def me(self) -> Any:
        return self.open("/api/v1/me")


def _attribute(tag: str, name: str) -> str:
    found = re.search(rf"{name}=\"([^\"]*)\"", tag, re.IGNORECASE)
    return html.unescape(found[1]) if found is not None else ""
