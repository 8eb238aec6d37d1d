"""Writes `src/fairpool/control/operator.yaml` from the chart of a cluster: `python -m tools.operator_manifest`.

With every optional part that the file for `kubectl apply` can have; `control/operator_manifest.py` puts values into it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fairpool.control.operator_manifest import NAMESPACE, REGISTRY
from tools.kube_assets import NotAvailable, program

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "src" / "fairpool" / "control" / "operator.yaml"
CHART = ROOT / "deploy" / "helm" / "fairpool-cluster"
OLDEST = "1.30.0"
"""Of the versions of Kubernetes that the chart accepts."""
VALUES = (
    "controlPlane.url=https://control-plane.invalid",
    "controlPlane.token=token",
    "controlPlane.caCertificate=certificate",
    f"image.registry={REGISTRY}",
    "image.pullSecrets[0]=registry",
)
HEAD = "# Made from deploy/helm/fairpool-cluster by `python -m tools.operator_manifest`; do not edit.\n"


def rendered() -> str:
    """The content of the file as it should be. Raises `NotAvailable` where there is no Helm."""
    values = [word for each in VALUES for word in ("--set", each)]
    where = ["--namespace", NAMESPACE, "--kube-version", OLDEST, "--no-hooks"]
    command = [str(program("helm")), "template", "fairpool", str(CHART), *where, *values]
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    if done.returncode != 0:
        raise NotAvailable(f"helm template: {done.stderr.strip()}")
    return HEAD + done.stdout


def main() -> int:
    try:
        FILE.write_text(rendered(), encoding="utf-8")
    except NotAvailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
