"""CPU and memory of pods of Kubernetes, from control groups as kubelets make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairpool.agent.kubernetes_meter import KubernetesMeter

UID, OTHER = "0b8c2d1e-1111-4222-8333-0123456789ab", "ffffffff-1111-4222-8333-0123456789ab"
MIB = 1 << 20
LAYOUTS = {
    "cgroupfs": f"kubepods/burstable/pod{UID}",
    "cgroupfs, guaranteed": f"kubepods/pod{UID}",
    "systemd": f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice",
    "below a group of the kubelet": f"node-1/kubepods/besteffort/pod{UID}",
}
VERSIONS = pytest.mark.parametrize("is_unified", [True, False], ids=["version 2", "version 1"])


class Groups:
    """A tree of control groups, of version 1 or 2."""

    def __init__(self, root: Path, *, is_unified: bool) -> None:
        self._root, self._is_unified = root, is_unified
        if is_unified:
            (root / "cgroup.controllers").write_text("cpu memory")

    def write(self, group: str, cpu_s: float, memory: int, cached: int = 0) -> None:
        root, unified = self._root, self._is_unified
        cpu = self._made(root / group if unified else root / "cpuacct" / group)
        of_memory = self._made(root / group if unified else root / "memory" / group)
        if unified:
            (cpu / "cpu.stat").write_text(f"usage_usec {int(cpu_s * 1e6)}\nuser_usec 1\n")
            (of_memory / "memory.current").write_text(f"{memory}\n")
            (of_memory / "memory.stat").write_text(f"anon 1\ninactive_file {cached}\n")
        else:
            (cpu / "cpuacct.usage").write_text(f"{int(cpu_s * 1e9)}\n")
            (of_memory / "memory.usage_in_bytes").write_text(f"{memory}\n")
            (of_memory / "memory.stat").write_text(f"cache 1\ntotal_inactive_file {cached}\n")

    def _made(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@VERSIONS
@pytest.mark.parametrize("group", LAYOUTS.values(), ids=LAYOUTS)
def test_cpu_time_is_a_rate_and_memory_is_without_what_can_be_dropped(
    tmp_path: Path, is_unified: bool, group: str
) -> None:
    groups = Groups(tmp_path, is_unified=is_unified)
    groups.write(group, cpu_s=100, memory=50 * MIB, cached=20 * MIB)
    meter = KubernetesMeter(str(tmp_path))
    first = meter.measure([UID, OTHER], [], at=1000.0)
    assert (first[UID].cpu_cores, first[UID].memory_bytes) == (None, 30 * MIB)
    assert (first[OTHER].cpu_cores, first[OTHER].memory_bytes) == (None, None)
    groups.write(group, cpu_s=115, memory=50 * MIB)
    then = meter.measure([UID, OTHER], [], at=1010.0)
    assert (then[UID].cpu_cores, then[UID].memory_bytes) == (1.5, 50 * MIB)
    assert then[OTHER].cpu_cores is None, "what is not measured is not idle"


@VERSIONS
def test_groups_that_a_pod_makes_are_not_taken_for_those_of_others(tmp_path: Path, is_unified: bool) -> None:
    groups = Groups(tmp_path, is_unified=is_unified)
    groups.write(f"kubepods/burstable/pod{UID}", cpu_s=1, memory=MIB)
    groups.write(f"kubepods/burstable/pod{UID}/kubepods/pod{OTHER}", cpu_s=1e6, memory=900 * MIB)
    groups.write(f"kubepods/burstable/pod{UID}/pod{OTHER}", cpu_s=1e6, memory=900 * MIB)
    assert KubernetesMeter(str(tmp_path)).measure([OTHER], [], at=0.0)[OTHER].memory_bytes is None


def test_damaged_files_are_not_measured(tmp_path: Path) -> None:
    Groups(tmp_path, is_unified=True).write(f"kubepods/pod{UID}", cpu_s=1, memory=MIB)
    for name in ("cpu.stat", "memory.current"):
        (tmp_path / f"kubepods/pod{UID}/{name}").write_text("usage_usec many\n")
    found = KubernetesMeter(str(tmp_path)).measure([UID], [], at=0.0)[UID]
    assert (found.cpu_cores, found.memory_bytes) == (None, None)
