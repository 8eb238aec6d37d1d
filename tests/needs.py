"""Programs that tests try for real: where CI runs, a missing one is a failure; elsewhere its tests are skipped."""

from __future__ import annotations

import os
import shutil

import pytest

from tools import kube_assets


def skip_unless_ci(why: str) -> None:
    """`.ci/run` says so where packages could not be installed: then it is the machine, not the change."""
    if os.environ.get("CI") == "true" and not os.environ.get("FAIRPOOL_PACKAGES_MISSING"):
        pytest.fail(f"{why}; where CI runs this must be tried")
    pytest.skip(why)


def program(name: str, package: str) -> str:
    """The path of an installed program, of this Debian package."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if found is None:
        skip_unless_ci(f"{name} is not installed (Debian package {package})")
    return str(found)


def kubernetes_program(name: str) -> str:
    """The path of a program of a Kubernetes cluster, built if it has not been before."""
    try:
        return str(kube_assets.program(name))
    except kube_assets.NotAvailable as error:
        skip_unless_ci(str(error))
        raise
