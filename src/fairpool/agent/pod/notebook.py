"""A placeholder page where Jupyter is not installed.

It answers under the address the notebook would have, says what it is, and shows the pod's identity: enough to see
that the way to it works. One file without dependencies, put into the pod.
"""

from __future__ import annotations

import contextlib
import errno
import html
import importlib
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT_RETRIES = 50
"""As many ports after one that is taken as Jupyter tries: two notebooks on one machine both want 8888."""
SHOWN = ("JOB_NAME", "RUNAI_PROJECT", "NODE_NAME", "RUNAI_NUM_OF_GPUS", "POD_INDEX")


class NotebookPage(BaseHTTPRequestHandler):
    """Answers every address with the same page."""

    def do_GET(self) -> None:
        rows = "".join(f"<li>{name}: {html.escape(os.environ.get(name, ''))}</li>" for name in SHOWN)
        text = (
            "<!doctype html><title>Notebook</title><h1>Jupyter is not installed</h1>"
            "<p>Jupyter is not installed on this machine, so Fairpool shows this page instead. "
            f"The URL works: {html.escape(self.path)}</p><ul>{rows}</ul>"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def main(arguments: list[str]) -> None:
    """Serve until SIGTERM, on the port that `--port=N` names."""
    options = dict(word.partition("=")[::2] for word in arguments)
    port = int(options.get("--port") or options.get("--NotebookApp.port") or "8888")
    server = listening(port)
    words = f"Jupyter is not installed on this machine; a placeholder page listens on port {server.server_port}"
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()
    with contextlib.suppress(Exception):  # to say so is not worth the page
        importlib.import_module("fairpool_reporter").Reporter().reportParameter("notebook", words)
    server.serve_forever()


def listening(port: int) -> ThreadingHTTPServer:
    """A server at the first port from this one on that is free."""
    for each in range(port, min(port + PORT_RETRIES, 65535)):
        try:
            return ThreadingHTTPServer(("127.0.0.1", each), NotebookPage)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    return ThreadingHTTPServer(("127.0.0.1", 0), NotebookPage)


if __name__ == "__main__":
    main(sys.argv[1:])
