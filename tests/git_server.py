"""A real Git server on loopback: `git http-backend` behind an HTTP server, and one that never answers."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

QUIET = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, env={**os.environ, **QUIET}, check=True, capture_output=True, text=True).stdout


def a_repository(folder: Path) -> tuple[Path, str, str]:
    """A bare repository with two commits on `master`, the first of them also on `dev`; and both commits."""
    work = folder / "work"
    work.mkdir(parents=True)
    git(work, "init", "--quiet", "--initial-branch=master")
    found = []
    for text in ("first", "second"):
        (work / "note").write_text(f"{text}\n")
        git(work, "add", "note")
        git(work, "commit", "--quiet", "-m", text)
        found.append(git(work, "rev-parse", "HEAD").strip())
    git(work, "branch", "dev", found[0])
    git(folder, "clone", "--quiet", "--bare", "work", "project.git")
    return folder / "project.git", found[0], found[1]


@contextmanager
def git_server(root: Path, credentials: str = "") -> Iterator[str]:
    """The address of all repositories in a folder; with credentials (`user:password`) only for who has them."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answered(self, root, credentials)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answered(request: BaseHTTPRequestHandler, root: Path, credentials: str) -> None:
    """By `git http-backend`, as a web server calls it."""
    import base64

    wanted = f"Basic {base64.b64encode(credentials.encode()).decode()}"
    if credentials and request.headers.get("Authorization") != wanted:
        request.send_response(401)
        request.send_header("WWW-Authenticate", 'Basic realm="git"')
        request.end_headers()
        return
    address = urlsplit(request.path)
    environment = {
        **os.environ,
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        "REQUEST_METHOD": request.command,
        "PATH_INFO": address.path,
        "QUERY_STRING": address.query,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "HTTP_GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
    }
    body = _body(request)
    done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=False)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
    request.send_response(int(headers.pop("Status", "200").split()[0]))
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(content)


def _body(request: BaseHTTPRequestHandler) -> bytes:
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    pieces = []
    while size := int(request.rfile.readline(), 16):
        pieces.append(request.rfile.read(size))
        request.rfile.readline()
    return b"".join(pieces)


@contextmanager
def silent_server() -> Iterator[tuple[str, socket.socket]]:
    """An address that accepts connections and never says anything; and its socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}", server
