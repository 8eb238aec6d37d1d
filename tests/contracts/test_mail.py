"""Mail, to a real SMTP server: settings, encryption, refusals, and headers that cannot be injected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.control.mail import Mail, MailServer, compose, deliver
from fairpool.model.problem import Problem
from tests.control.control_plane import ControlPlane, codes, control_plane, expect
from tests.smtp_server import PASSWORD, USER, Mailbox, smtp_server

SETTINGS, TEST = "/api/v1/mail/settings", "/api/v1/mail/test"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        yield control


def settings_for(box: Mailbox, **more: Any) -> dict[str, Any]:
    return {"host": box.host, "port": box.port, "from": "fairpool@example.com", **more}


@pytest.mark.slow
@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
def test_a_test_message_arrives(control: ControlPlane, tmp_path: Path, security: str) -> None:
    assert codes(control.call("POST", TEST, {"to": "ann@example.com"})) == ["mail.not_configured"]
    with smtp_server(tmp_path, security, with_login=True) as box:
        chosen = settings_for(box, security=security, username=USER, password=PASSWORD, caCertificate=box.certificate)
        shown = expect(control.call("PUT", SETTINGS, chosen), 200)
        assert (shown["hasPassword"], "password" in shown) == (True, False)
        for file in control.app.state.plane.settings.data.glob("control.sqlite*"):
            assert PASSWORD.encode() not in file.read_bytes()
        assert expect(control.call("POST", TEST, {"to": "ann@example.com"}), 200)["accepted"]
        (mail,) = box.messages
        assert (mail["From"], mail["To"]) == ("fairpool@example.com", "ann@example.com")
        assert mail["Subject"] == "Test message from Fairpool"
        assert box.logins == [USER]
        # A change that says nothing about the password keeps it, but never for another server.
        del chosen["password"]
        expect(control.call("PUT", SETTINGS, chosen), 200)
        expect(control.call("POST", TEST, {"to": "ann@example.com"}), 200)
        assert not expect(control.call("PUT", SETTINGS, {**chosen, "host": "localhost"}), 200)["hasPassword"]


@pytest.mark.slow
def test_what_goes_wrong_is_said_in_words(control: ControlPlane, tmp_path: Path) -> None:
    with smtp_server(tmp_path, "tls", with_login=True) as box:

        def answer(**changes: Any) -> tuple[list[str], str]:
            right = {"security": "tls", "username": USER, "password": PASSWORD, "caCertificate": box.certificate}
            expect(control.call("PUT", SETTINGS, settings_for(box, **{**right, **changes})), 200)
            said = control.call("POST", TEST, {"to": "ann@example.com"})
            assert said.status_code == 502
            assert "wrong-password" not in said.text
            return codes(said), said.json()["message"]

        assert answer(password="wrong-password")[0] == ["mail.login"]
        assert answer(caCertificate="")[0] == ["mail.tls"], "an authority that is not known is not trusted"
        assert answer(username="", password=None)[0] == ["mail.refused"]
    assert answer()[0] == ["mail.unreachable"]
    expect(control.call("DELETE", SETTINGS), 204)
    assert codes(control.call("GET", SETTINGS)) == ["mail.not_configured"]


def test_settings_are_checked_together(control: ControlPlane) -> None:
    wrong = {
        "host": "smtp.example.com",
        "from": "a,b@example.com",
        "security": "none",
        "username": "ann",
        "password": "x",
        "caCertificate": "no certificate",
    }
    assert codes(control.call("PUT", SETTINGS, wrong)) == ["mail.address", "mail.insecure", "mail.certificate"]
    assert codes(control.call("PUT", SETTINGS, {"host": "h", "from": "a@b.c", "password": "x"})) == ["mail.no_user"]
    for host in ("a b", "smtp\r\nX: y", "-h", "http://smtp/"):
        assert control.call("PUT", SETTINGS, {"host": host, "from": "a@b.c"}).status_code == 422


INJECTED = (
    "ann@example.com\r\nBcc: all@example.com",
    "ann@example.com\nX: y",
    "ann@example.com, eve@example.com",
    "ann@example.com;eve@example.com",
    "Ann <eve@example.com>",
    '"a b"@example.com',
    "ann@example.com\x00",
    "@example.com",
    "ann@-example.com",
    "",
)


@pytest.mark.parametrize("to", INJECTED)
def test_no_address_becomes_a_header_or_another_recipient(to: str) -> None:
    problem = compose("fairpool@example.com", Mail(to, "Hello", "text"))
    assert isinstance(problem, Problem)
    assert problem.code == "mail.address"
    assert isinstance(compose(to, Mail("ann@example.com", "Hello", "text")), Problem)


@pytest.mark.parametrize("subject", ["Hello\r\nBcc: eve@example.com", "Hello\nEve", "Hello\x00", "a\u2028b", "x" * 201])
def test_no_subject_becomes_a_header(subject: str) -> None:
    problem = compose("fairpool@example.com", Mail("ann@example.com", subject, "text"))
    assert isinstance(problem, Problem)
    assert problem.code == "mail.subject"


@pytest.mark.slow
def test_a_text_arrives_as_it_is(tmp_path: Path) -> None:
    text = "Hello\n.\n..\nBcc: eve@example.com\n\nÜnïcode €\n"
    with smtp_server(tmp_path) as box:
        server = MailServer(host=box.host, port=box.port, security="none", sender="fairpool@example.com")
        assert deliver(server, Mail("ann@example.com", "Grüße 🙂", text)) is None
    assert box.recipients == [["ann@example.com"]]
    (mail,) = box.messages
    assert mail["Bcc"] is None
    assert mail["Subject"] == "Grüße 🙂"
    assert mail.get_content().replace("\r\n", "\n") == text
