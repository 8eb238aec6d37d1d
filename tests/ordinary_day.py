"""A person without privileges starts the platform and runs their own script: with its folder, and with a volume.

Run as a program in an empty folder, by `tests/end_to_end/test_ordinary_user.py`; prints what commands said, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PATIENCE_S = 180.0
SCRIPT = "import os; print(open('note').read(), os.getuid(), os.getcwd()); open('result', 'w').write('done')"


def main(folder: Path) -> None:
    code = folder / "code"
    code.mkdir()
    (code / "train.py").write_text(SCRIPT)
    (code / "note").write_text("from the folder")
    (code / ".env").write_text("SECRET=1")
    own = {"FAIRPOOL_DATA": str(folder / "data"), "FAIRPOOL_CONFIG": str(folder / "config"), "HOME": str(folder)}
    environment = {**os.environ, **own, "FAIRPOOL_DISK_RESERVE": "32MiB"}

    def typed(module: str, *arguments: str) -> str:
        command = [sys.executable, "-m", f"fairpool.cli.{module}", *arguments]
        done = subprocess.run(
            command, cwd=code, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        print(json.dumps([" ".join(arguments), done.returncode, done.stdout, done.stderr]), flush=True)
        return done.stdout

    def runai(*arguments: str) -> str:
        return typed("runai.main", *arguments)

    try:
        typed("main", "up", "--detach", "--listen", "127.0.0.1:0", "--nodes", "simulated")
        runai("submit", "mounted", "-i", "python", "-g", "0.5", "--workdir", ".", "--", "python", "train.py")
        runai("submit", "copied", "-i", "python", "--workdir", ".", "--exclude", "x", "--", "python", "train.py")
        runai("submit", "volume", "-i", "python", "-v", f"{code}:/data:ro", "--", "cat", "/data/note")
        runai("submit-dist", "mpi", "gang", "-i", "python", "--", "fairpool-rsh", "gang-worker-0", "hostname")
        for name in ("mounted", "copied", "volume", "gang"):
            runai("wait", name, "--timeout", "120s")
            runai("logs", name)
        print(json.dumps(["result", 0, (code / "result").read_text(), ""]), flush=True)
    finally:
        typed("main", "down", "--stop-pods")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
