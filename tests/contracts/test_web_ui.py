"""The built web UI: files, pages, headers. What is in the page is tested in a browser."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.control import web_ui
from fairpool.control.discretion import MARK
from fairpool.control.owner import new_link
from tests.control.control_plane import HERE, ControlPlane, codes, control_plane

PAGE = b"<!doctype html><title>Fairpool</title><div id=root></div>"
SCRIPT = b"console.log(1);" * 100 + MARK
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Vite would have built it, with a link that leads out of it."""
    built = tmp_path_factory.mktemp("build") / "static"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_bytes(PAGE)
    (built / "favicon.svg").write_bytes(b"<svg/>")
    (built / ".built-from").write_text("secret")
    (built / "assets" / "index-a1b2.js").write_bytes(SCRIPT)
    (built / "assets" / "index-a1b2.js.gz").write_bytes(gzip.compress(SCRIPT))
    (built / "assets" / "inter-c3d4.woff2").write_bytes(b"font")
    (built.parent / "secret.txt").write_text("secret")
    (built / "assets" / "secret.txt").symlink_to(built.parent / "secret.txt")
    (built / "out").symlink_to(built.parent)
    return built


@pytest.fixture(scope="module")
def control(folder: Path) -> Iterator[ControlPlane]:
    with control_plane(web_ui=folder) as control:
        yield control


@pytest.mark.parametrize("path", ["/", "/workloads", "/workloads/4711", "/projects/team-a/jobs.2", "/index.html"])
def test_every_page_of_the_web_ui_is_its_one_page_and_needs_no_token(control: ControlPlane, path: str) -> None:
    page = control.http.get(path, headers=HTML)
    assert (page.status_code, page.content) == (200, PAGE)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache", "an update is seen at the next visit"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "same-origin"
    policy = page.headers["content-security-policy"].split("; ")
    assert {"default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "object-src 'none'"} <= set(policy)
    again = control.http.get(path, headers={**HTML, "If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert control.http.head(path, headers=HTML).status_code == 200


def test_files_with_a_hash_in_their_name_are_kept_forever_and_sent_compressed(control: ControlPlane) -> None:
    script = control.http.get("/assets/index-a1b2.js")
    assert script.headers["content-encoding"] == "gzip"
    assert script.content == SCRIPT, "also if it contains what marks names in answers of the API"
    assert int(script.headers["content-length"]) < len(SCRIPT)
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert script.headers["vary"] == "Accept-Encoding"
    for refused in ("identity", "br, gzip;q=0", ""):
        plain = control.http.get("/assets/index-a1b2.js", headers={"Accept-Encoding": refused})
        assert "content-encoding" not in plain.headers
        assert plain.content == SCRIPT
    font = control.http.get("/assets/inter-c3d4.woff2")
    assert (font.headers["content-type"], font.content) == ("font/woff2", b"font")
    icon = control.http.get("/favicon.svg")
    assert (icon.headers["content-type"], icon.headers["cache-control"]) == ("image/svg+xml", "no-cache")


@pytest.mark.parametrize(
    "path",
    [
        *("/api/v1/nothing", "/v1/nothing", "/researcher/nothing", "/auth/nothing", "/.well-known/nothing"),
        *("/metrics/nothing", "/docs/nothing", "/healthz/nothing", "/sign-in/nothing/at/all"),
        *("/assets/nothing.js", "/assets/secret.txt", "/assets/index-a1b2.js.gz", "/assets/"),
    ],
)
def test_paths_of_the_server_and_unknown_files_are_not_pages(control: ControlPlane, path: str) -> None:
    unknown = control.http.get(path, headers=HTML)
    assert unknown.status_code == 401, "what there is, is told only to those with a token"
    assert codes(control.call("GET", path, headers=HTML)) == ["request.no_such_path"]


@pytest.mark.parametrize(
    "path", ["/out/secret.txt", "/../secret.txt", "/%2e%2e/secret.txt", "/assets/..%2f..%2fsecret.txt", "/.built-from"]
)
def test_no_path_leads_out_of_the_build(control: ControlPlane, path: str) -> None:
    for headers in (HTML, {"Accept": "*/*"}):
        assert "secret" not in control.http.get(path, headers=headers).text


def test_programs_that_do_not_ask_for_a_page_get_a_problem_document(control: ControlPlane) -> None:
    assert control.http.get("/workloads", headers={"Accept": "application/json"}).status_code == 401
    assert codes(control.call("GET", "/workloads")) == ["request.no_such_path"]
    assert control.call("POST", "/workloads", {}, headers=HTML).status_code == 404


def test_another_host_name_gets_no_page(control: ControlPlane) -> None:
    for path in ("/", "/workloads", "/assets/index-a1b2.js"):
        assert control.http.get(path, headers={**HTML, "Host": "evil.example"}).status_code == 421


def test_after_signing_in_the_page_that_was_asked_for_opens(control: ControlPlane) -> None:
    control.researcher("ann")
    deep = "/workloads/4711?tab=log"
    form = {"username": "ann@example.com", "password": "correct horse", "next": deep}
    opened = control.browser(headers=HTML).post("/sign-in", data=form)
    assert (str(opened.url.raw_path, "ascii"), opened.content) == (deep, PAGE)
    assert control.http.portal is not None
    link = str(control.http.portal.call(new_link, control.app.state.plane))
    opened = control.browser(headers=HTML).get(f"{link}&next=/workloads/4711")
    assert (opened.url.path, opened.content) == ("/workloads/4711", PAGE)
    link = str(control.http.portal.call(new_link, control.app.state.plane))
    assert control.browser(headers=HTML).get(f"{link}&next=//evil.example/").url.path == "/"


def test_a_build_without_a_page_or_too_large_is_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = web_ui.WebUi(tmp_path)
    empty.load()
    assert not empty.is_built
    monkeypatch.setattr(web_ui, "FILES_MAX_BYTES", 1000)
    large = web_ui.WebUi(folder)
    large.load()
    assert not large.is_built


def test_without_a_build_one_plain_page_says_how_to_make_it() -> None:
    with control_plane() as control:
        page = control.http.get("/", headers=HTML)
        assert "make ui" in page.text
        assert "FAIRPOOL_UI=skip" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert control.http.get("/workloads", headers=HTML).status_code == 401


@pytest.mark.parametrize("path", ["/api/v1/me", "/api/v1/workloads", "/api/v1/me/preferences", "/api/v1/nothing"])
def test_no_cache_keeps_what_a_user_was_told(control: ControlPlane, path: str) -> None:
    """Neither the browser's, for the next person in front of it, nor a proxy's, which does not know of cookies."""
    for answer in (control.call("GET", path), control.http.get(path)):
        assert answer.headers["cache-control"] == "no-store", answer.status_code
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_other_origins_can_neither_embed_nor_hold_the_page(control: ControlPlane) -> None:
    page = control.http.get("/", headers=HTML)
    assert page.headers["cross-origin-resource-policy"] == "same-origin"
    assert "cross-origin-opener-policy" not in page.headers, "a browser complains about it without TLS"
    secure = control.browser(HERE.replace("http:", "https:")).get("/", headers=HTML)
    assert secure.headers["cross-origin-opener-policy"] == "same-origin"
