"""Build hook: puts the web UI and the library of GPU shares into the package.

A source archive carries the built web UI, so that a wheel from it needs no Node. In a checkout it is built first, with
the Node on the path or one from PyPI, which pip installs for the build only. `FAIRPOOL_UI=skip` leaves it out.

The library is built where there is a C compiler; a wheel with it is for this kind of machine only.
`FAIRPOOL_NATIVE=skip` leaves it out.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuiltPartsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the web UI before a source archive or a wheel is written, and the library before a wheel is."""

    def dependencies(self) -> list[str]:
        ui_build, root = self._tool("ui_build"), Path(self.root)
        if ui_build.is_skipped() or ui_build.is_current(root) or ui_build.found_node(root) is not None:
            return []
        return [ui_build.NODE_PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._tool("ui_build").build(Path(self.root))
        native_build = self._tool("native_build")
        if self.target_name == "wheel" and not native_build.is_skipped() and native_build.build(Path(self.root)):
            if version == "standard":
                machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{machine}"  # a library that any Python can put under a program
            build_data["artifacts"].append(f"/{native_build.LIBRARY}")

    def _tool(self, name: str) -> ModuleType:
        """A module of `tools`; the checkout is not on the path of a build."""
        spec = importlib.util.spec_from_file_location(name, Path(self.root, "tools", f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module
