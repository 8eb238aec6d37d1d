"""The contact for help: an administrator sets it, every user sees it (F-198)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.control.control_plane import ControlPlane, codes, control_plane, expect

SETTINGS = "/api/v1/settings"


@pytest.fixture(scope="module")
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        control.researcher("ann", "team-a")
        yield control


def test_none_is_named_at_first(control: ControlPlane) -> None:
    assert expect(control.call("GET", f"{SETTINGS}/support.contact"), 200)["value"] == ""
    assert "supportContact" not in expect(control.call("GET", "/api/v1/me", by="ann"), 200)


@pytest.mark.parametrize(
    ("said", "link"),
    [
        ("gpu-help@example.com", "mailto:gpu-help@example.com"),
        ("https://help.example.com/gpu?team=a#top", "https://help.example.com/gpu?team=a#top"),
        ("http://wiki:8080/", "http://wiki:8080/"),
    ],
)
def test_every_user_sees_the_link(control: ControlPlane, said: str, link: str) -> None:
    for key, field in (("support.contact", "supportContact"), ("support.feedback", "supportFeedback")):
        expect(control.call("PUT", f"{SETTINGS}/{key}", {"value": said}), 200)
        assert expect(control.call("GET", "/api/v1/me", by="ann"), 200)[field] == link
        assert control.call("PUT", f"{SETTINGS}/{key}", {"value": ""}, by="ann").status_code == 403
        expect(control.call("PUT", f"{SETTINGS}/{key}", {"value": ""}), 200)
        assert field not in expect(control.call("GET", "/api/v1/me", by="ann"), 200)


@pytest.mark.parametrize(
    "said",
    [
        *("javascript:alert(1)", "data:text/html,x", "ftp://example.com", "//example.com", "https://", "help desk"),
        *("a@b?cc=c@d", "mailto:a@b.c", "https://good.example@evil.example", 'https://a"onclick', "https://a\nb", True),
        *("https://example.com/" + "x" * 512, "https://example.com:99999", "<b>", "a@b\n"),
    ],
)
def test_what_is_no_mail_address_and_no_page_is_refused(control: ControlPlane, said: object) -> None:
    answer = control.call("PUT", f"{SETTINGS}/support.contact", {"value": said})
    assert (answer.status_code, codes(answer)) == (422, ["setting.wrong_value"])
