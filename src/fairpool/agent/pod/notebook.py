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
import shlex
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT_RETRIES = 50
"""As many ports after one that is taken as Jupyter tries: two notebooks on one machine both want 8888."""
SHOWN = ("JOB_NAME", "RUNAI_PROJECT", "NODE_NAME", "RUNAI_NUM_OF_GPUS", "POD_INDEX")


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Jupyter is not installed</title>
<style>
:root {{ --bg: #f5f6f8; --surface: #ffffff; --sunken: #edeff3; --border: #dadfe6; --text: #161a20; --text-2: #454e5b; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --bg: #0f1216; --surface: #171b21; --sunken: #1f252d; --border: #2c333d; }}
  :root {{ --text: #e9ecf1; --text-2: #b6bfcb; }}
}}
body {{ margin: 0; padding: 24px 16px; background: var(--bg); color: var(--text); }}
body {{ font: 14px/20px system-ui, sans-serif; }}
main {{ max-width: 640px; margin: 0 auto; padding: 24px; background: var(--surface); }}
main {{ border: 1px solid var(--border); border-radius: 8px; }}
h1 {{ margin: 0 0 8px; font-size: 20px; line-height: 28px; font-weight: 600; }}
h2 {{ margin: 24px 0 8px; font-size: 14px; font-weight: 600; }}
p, ol {{ margin: 0 0 12px; }}
ol {{ padding-left: 20px; }}
li {{ margin-bottom: 12px; }}
code, pre {{ font: 13px/20px ui-monospace, monospace; }}
pre {{ margin: 8px 0; padding: 12px; background: var(--sunken); border-radius: 4px; overflow-x: auto; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 4px 16px; margin: 0; color: var(--text-2); }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<main>
<h1>Jupyter is not installed</h1>
<p>Your workspace runs, and the way to it works. But Jupyter is not installed on this machine{node}, so Fairpool shows
this page in its place.</p>
<h2>To get a notebook</h2>
<ol>
<li>An administrator of the machine installs Jupyter, in an environment of its own:
<pre>{commands}</pre>
Fairpool need not be restarted. Debian and Ubuntu need the package <code>python3-venv</code> for the first command.</li>
<li>Suspend the workspace and resume it, on its page in Fairpool or with
<pre>{again}</pre></li>
<li>Open this address again.</li>
</ol>
<p>A workspace uses the first <code>jupyter</code> on the machine's <code>PATH</code>, or, submitted with
<code>--python-env PATH</code>, that of this virtual environment. On nodes that run containers it is in the image.</p>
<h2>This workspace</h2>
<dl>{rows}</dl>
</main>
</body>
</html>
"""


def page(path: str) -> str:
    """What it is, and how to get a real notebook. Nothing of the pod or the address is trusted."""
    own = {name: html.escape(os.environ.get(name, "")) for name in SHOWN}
    python = shlex.quote(sys.executable)
    commands = (
        f"sudo {python} -m venv /opt/jupyter",
        "sudo /opt/jupyter/bin/pip install notebook",
        "sudo ln -s /opt/jupyter/bin/jupyter /usr/local/bin/jupyter",
    )
    job, project = (shlex.quote(os.environ.get(name, "")) for name in ("JOB_NAME", "RUNAI_PROJECT"))
    again = (f"runai suspend {job} -p {project}", f"runai resume {job} -p {project}")
    rows = {**own, "URL": html.escape(path.partition("?")[0])}  # a query may have a token
    return PAGE.format(
        node=f", node {own['NODE_NAME']}" if own["NODE_NAME"] else "",
        commands=html.escape("\n".join(commands)),
        again=html.escape("\n".join(again)),
        rows="".join(f"<dt>{name}</dt><dd>{value or '–'}</dd>" for name, value in rows.items()),
    )


class NotebookPage(BaseHTTPRequestHandler):
    """Answers every address with the same page."""

    def do_GET(self) -> None:
        text = page(self.path).encode()
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
