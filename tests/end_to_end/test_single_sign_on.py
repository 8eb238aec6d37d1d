"""Sign-in with accounts of a real Keycloak, by OpenID Connect and SAML: who gets in, as whom, and until when."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairpool.api.client import Client, Refused, Submission
from tests.end_to_end.chromium import Page, browser_page, wait
from tests.end_to_end.provider_browser import Browser
from tests.end_to_end.runai_server import Server, real_environment, serving
from tests.keycloak import Realm, realm
from tests.running_platform import PATIENCE_S

pytestmark = pytest.mark.slow

SECRET = "the secret of this platform"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("sso")) as server:
        server.settle("team-a")
        server.typed("runai-adm setting update security.privateIdentityProviders true")
        yield server


@pytest.fixture(scope="module")
def company(keycloak: str, server: Server) -> Iterator[Realm]:
    """A realm that this platform is connected to as `company`."""
    with realm(keycloak, "company") as company:
        company.oidc_client("fairpool", SECRET, server.address, "company")
        secret = server.folder / "secret.txt"
        secret.write_text(f"{SECRET}\n")
        said = server.typed(
            f"runai-adm identity-provider create company --discovery-url {company.issuer} --client-id fairpool "
            f"--client-secret-file {secret}"
        )
        assert f"{server.address}/sign-in/with/company/callback" in said
        yield company


def command_of(browser: Browser) -> Client:
    """A command that this browser let in, as `runai login --no-browser` does it."""
    from fairpool.cli.runai.browser_login import CommandSecret

    secret = CommandSecret()
    page = browser.open(f"/sign-in/command?challenge={secret.challenge}")
    code = browser.submit(page).text.partition('<code id="code">')[2].partition("<")[0]
    client = Client(browser.address)
    client.refresh = client.sign_in_by_code(code, secret.verifier).refresh_token  # type: ignore[attr-defined]
    return client


def until(holds: Callable[[], bool], what: str) -> None:
    wait(holds, lambda: what)


def may_see_projects(client: Client) -> bool:
    try:
        return bool(client.projects())
    except Refused as refusal:
        if refusal.status != 403:
            raise
        return False


def renew(client: Any) -> None:
    client.refresh = client.renew(client.refresh).refresh_token


def test_a_first_sign_in_makes_a_user_and_the_next_one_finds_it(company: Realm, server: Server) -> None:
    company.user("ann", groups=("research",))
    first = Browser(server.address)
    assert "Sign in with company" in first.open("/sign-in").text
    assert first.sign_in("company", "ann").url.path == "/"
    me = first.me().json()
    assert (me["username"], me["hasPassword"]) == ("ann@company.test", False)
    second = Browser(server.address)
    second.sign_in("company", "ann")
    assert second.me().json()["id"] == me["id"]
    assert second.token != first.token
    refusal = server.type("runai login -u ann@company.test", stdin="\n", person="ann")
    assert refusal.code == 1


def test_a_local_account_is_not_taken_over_by_its_address(company: Realm, server: Server) -> None:
    server.typed("runai-adm user create bob@company.test")
    subject = company.user("bob")
    browser = Browser(server.address)
    page = browser.sign_in("company", "bob")
    assert page.status_code == 400
    assert "There is a user bob@company.test already" in page.text
    assert not browser.token
    command = f"runai-adm identity-provider link company bob@company.test --subject {subject}"
    assert command in page.text
    server.typed(command)
    assert browser.sign_in("company", "bob").url.path == "/"
    assert server.admin.users()  # the administrator's own way in is untouched
    assert browser.me().json()["username"] == "bob@company.test"
    server.typed("runai-adm identity-provider unlink company bob@company.test")
    assert browser.me().status_code == 401
    assert browser.sign_in("company", "bob").status_code == 400


def test_what_the_provider_says_holds_from_the_next_token_renewal_on(company: Realm, server: Server) -> None:
    """F-207, F-220."""
    company.user("carl", groups=("research",))
    rule = {"subjectId": "research", "subjectType": "group", "roleId": "researcher", "scopeType": "project"}
    server.admin.create_access_rule({**rule, "scopeId": "team-a"})
    browser = Browser(server.address)
    browser.sign_in("company", "carl")
    command = command_of(browser)
    assert [each.name for each in command.projects()] == ["team-a"], "the group has a role there"
    job = {"name": "of-a-member", "projectId": "team-a", "spec": {"image": "quickstart"}}
    assert command.submit(Submission("Training", job)).name == "of-a-member"
    company.leave("carl", "research")
    renew(command)
    assert not may_see_projects(command)
    company.join("carl", "research")
    renew(command)
    assert may_see_projects(command)
    company.set_enabled("carl", enabled=False)
    with pytest.raises(Refused, match="ended the session, or disabled the account"):
        renew(command)
    assert browser.me().status_code == 401, "the session of the browser came of the same sign-in"


def test_a_back_channel_logout_ends_the_sessions_at_once(company: Realm, server: Server) -> None:
    company.user("dora")
    browser, other = Browser(server.address), Browser(server.address)
    browser.sign_in("company", "dora")
    other.sign_in("company", "dora")
    command = command_of(browser)
    assert command.me().username == "dora@company.test"
    company.sign_out("dora")
    until(lambda: browser.me().status_code == 401, "the first session ends")
    until(lambda: other.me().status_code == 401, "the other one ends")
    with pytest.raises(Refused, match="invalid"):
        command.me()


def test_a_new_signing_key_of_the_provider_is_fetched(company: Realm, server: Server) -> None:
    company.user("emil")
    company.rotate_keys()
    browser = Browser(server.address)
    browser.sign_in("company", "emil")
    assert browser.me().json()["username"] == "emil@company.test"


def test_the_settings_of_a_provider_never_show_its_secret(company: Realm, server: Server) -> None:
    shown = server.typed("runai-adm identity-provider get company")
    listed = server.typed("runai-adm identity-provider list -o json")
    assert company.issuer in shown
    assert SECRET not in shown + listed
    assert json.loads(listed)[0]["oidcData"]["clientSecret"] == ""
    assert "ok" in server.typed("runai-adm identity-provider test company")
    server.typed("runai-adm identity-provider update company --scope openid --scope email --scope profile")
    company.user("fina")
    browser = Browser(server.address)
    browser.sign_in("company", "fina")
    assert browser.me().json()["username"] == "fina@company.test"


# --- the command, in a real browser --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium() -> Iterator[Page]:
    with browser_page() as page:
        yield page


class Login:
    """A `runai login` in a process of its own; what it opens, a real browser gets."""

    def __init__(self, server: Server, person: str, *flags: str) -> None:
        place = server.folder / person
        place.mkdir(exist_ok=True)
        self.link = place / "link"
        opener = place / "opener"
        opener.write_text(f'#!/bin/sh\nprintf %s "$1" > {self.link}.new && mv {self.link}.new {self.link}\n')
        opener.chmod(opener.stat().st_mode | stat.S_IXUSR)
        environment = real_environment(server, person, BROWSER=str(opener))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairpool.cli.runai.main", "login", *flags],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def opened(self) -> str:
        wait(self.link.exists, lambda: "the command opens a browser")
        return self.link.read_text()

    def said(self, words: str) -> str:
        """The line of its messages that has these words."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if words in line:
                return line.strip()
        raise AssertionError(f"it did not say {words!r}")

    def ends_well(self, stdin: str | None = None) -> str:
        out, err = self.process.communicate(stdin, PATIENCE_S)
        assert self.process.returncode == 0, (out, err)
        return out


def sign_in_at_keycloak(page: Page, name: str) -> None:
    page.until("document.querySelector('#username') && document.readyState === 'complete'", "Keycloak's form is there")
    page.value(f"document.querySelector('#username').value = {json.dumps(name)}")
    page.value(f"document.querySelector('#password').value = {json.dumps('secret-' + name)}")
    page.value("document.querySelector('#kc-form-login, form').submit()")


def click(page: Page, selector: str, what: str) -> None:
    page.until(f"document.readyState === 'complete' && !!document.querySelector({json.dumps(selector)})", what)
    page.value(f"document.querySelector({json.dumps(selector)}).click()")


def test_runai_login_by_the_browser_of_the_machine(company: Realm, server: Server, chromium: Page) -> None:
    company.user("gina")
    login = Login(server, "gina")
    chromium.open(login.opened())
    click(chromium, "a[href^='/sign-in/with/company']", "the sign-in page has a button for the provider")
    sign_in_at_keycloak(chromium, "gina")
    chromium.until("document.body.innerText.includes('gina@company.test')", "the person is asked")
    click(chromium, "form button", "the page asks")
    chromium.until("document.body.innerText.includes('You are signed in')", "the command has the code")
    assert "Logged in successfully as gina@company.test" in login.ends_well()
    assert "gina@company.test" in server.typed("runai whoami", person="gina")


def test_runai_login_by_a_saml_provider(company: Realm, server: Server, chromium: Page) -> None:
    """The same realm speaks SAML too."""
    made = server.typed(f"runai-adm identity-provider create directory --metadata-url {company.saml_metadata}")
    entity = f"{server.address}/sign-in/with/directory/metadata"
    assert entity in made
    company.saml_client(entity, server.address, "directory")
    company.user("jana", groups=("guests",), UID="4711")
    rule = {"subjectId": "guests", "subjectType": "group", "roleId": "researcher", "scopeType": "project"}
    server.admin.create_access_rule({**rule, "scopeId": "team-a"})
    assert "ok" in server.typed("runai-adm identity-provider test directory")
    login = Login(server, "jana")
    chromium.call("Network.clearBrowserCookies")
    chromium.open(login.opened())
    click(chromium, "a[href^='/sign-in/with/directory']", "the sign-in page has a button for the provider")
    sign_in_at_keycloak(chromium, "jana")
    chromium.until("document.body.innerText.includes('jana@company.test')", "the person is asked")
    click(chromium, "form button", "the page asks")
    chromium.until("document.body.innerText.includes('You are signed in')", "the command has the code")
    assert "Logged in successfully as jana@company.test" in login.ends_well()
    assert "team-a" in server.typed("runai list projects", person="jana"), "the group has a role there"
    server.typed("runai-adm identity-provider update directory --groups-claim roles")
    assert "roles" in server.typed("runai-adm identity-provider get directory")
    server.typed("runai-adm identity-provider delete directory")
    assert server.type("runai whoami", person="jana").code == 1, "the sessions of its users end"


def test_runai_login_with_a_device_code_as_a_local_user(server: Server, chromium: Page) -> None:
    server.admin.create_user({"email": "hugo@example.com", "password": "correct horse", "needToChangePassword": False})
    login = Login(server, "hugo", "--device")
    link = login.said("/device?code=")
    chromium.call("Network.clearBrowserCookies")
    chromium.open(link)
    chromium.until("!!document.querySelector('input[name=password]')", "the sign-in page is there")
    chromium.value("document.querySelector('input[name=username]').value = 'hugo@example.com'")
    chromium.value("document.querySelector('input[name=password]').value = 'correct horse'")
    chromium.value("document.querySelector('form').requestSubmit()")
    click(chromium, "form[action='/device'] button", "the page of the device has the code of the link")
    click(chromium, "button[value=approve]", "the next one says which command asks")
    chromium.until("document.body.innerText.includes('Sign-in approved')", "it is approved")
    assert "Logged in successfully as hugo@example.com" in login.ends_well()


def test_runai_login_without_a_browser_takes_a_copied_code(company: Realm, server: Server) -> None:
    company.user("ida")
    login = Login(server, "ida", "--no-browser")
    link = login.said("/sign-in/command?")
    browser = Browser(server.address)
    browser.sign_in("company", "ida")
    code = browser.submit(browser.open(link)).text.partition('<code id="code">')[2].partition("<")[0]
    assert "Logged in successfully as ida@company.test" in login.ends_well(f"{code}\n")
    with Client(server.address) as thief, pytest.raises(Refused, match="wrong, was used already"):
        thief.sign_in_by_code(code, "another secret")
