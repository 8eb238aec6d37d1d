"""A program of a share gets as much GPU memory as the share has, whichever call it uses, and no more."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairpool.agent.fractions.share_file import FILE_BYTES, SharedDevice, encode_share
from tests.native.conftest import BUILDS, MIB, Built, World, uuid

pytestmark = pytest.mark.slow

OUT_OF_MEMORY = 2
CONTEXT_MIB = 100
KINDS = ("linear", "pitched", "managed", "async", "pool", "virtual", "array", "array3d", "mipmap", "graph")
EVERY_BUILD = pytest.mark.parametrize("world", BUILDS, indirect=True)


@EVERY_BUILD
def test_every_kind_of_allocation_is_stopped_at_the_limit_and_given_back(world: World) -> None:
    world.limit(1000)
    puppet = world.opened()
    for kind in KINDS:
        rc, blocks = map(int, puppet.ask(f"fill {kind} 64"))
        assert (rc, blocks) == (OUT_OF_MEMORY, 14), kind  # 14 x 64 and the context; one more would not fit
        assert world.real_mib() <= 1000, kind
        assert puppet.result("alloc linear 1") == 0, kind  # a refusal takes nothing
        assert puppet.result("free") == 0
        assert puppet.result("free all") == 0, kind
        if kind == "graph":  # its memory stays with the device until the process ends
            break
        assert world.use(puppet).tracked_bytes == 0, kind
        assert puppet.ask("info") == ["0", "900", "1000"], kind


@EVERY_BUILD
def test_threads_that_allocate_at_once_leave_nothing_charged(world: World) -> None:
    world.limit(2000)
    puppet = world.opened()
    assert puppet.result("threads 16 40 10") == 0
    assert world.use(puppet).tracked_bytes == 0
    puppet.ask("threads 16 40 1200")  # two do not fit at once: some may be refused
    assert world.use(puppet).tracked_bytes == 0


@EVERY_BUILD
def test_a_forked_child_starts_over_with_a_slot_of_its_own(world: World) -> None:
    world.limit(1000, 0, 1)
    puppet = world.start(STUB_DEVICES="01")
    assert puppet.result("nvml 3") == 0  # the library has seen the share, and no context exists
    assert puppet.result("fork") == 0
    assert puppet.result("open 0") == 0
    assert puppet.result("alloc linear 500") == 0
    assert puppet.result("fork") == 0
    assert world.use(puppet).bytes == (500 + CONTEXT_MIB) * MIB


def test_what_a_block_really_takes_is_charged(world: World) -> None:
    world.limit(1000)
    puppet = world.opened()
    assert puppet.result(f"bytes linear {MIB + 1}") == 0  # the driver gives multiples of 2 MiB
    assert world.use(puppet).tracked_bytes == 2 * MIB
    assert puppet.result("bytes linear 1000") == 0
    assert world.use(puppet).tracked_bytes == 2 * MIB + 1000
    assert puppet.result("bytes async 1000") == 0  # a pool grows by 32 MiB
    assert world.use(puppet).tracked_bytes == 34 * MIB + 1000
    assert world.use(puppet).overhead_bytes == CONTEXT_MIB * MIB
    assert puppet.result(f"bytes linear {(1 << 64) - 1}") == OUT_OF_MEMORY
    assert puppet.result("bytes linear 0") == 1  # invalid, as the driver says


def test_memory_is_freed_by_the_call_of_another_kind(world: World) -> None:
    world.limit(1000)
    puppet = world.opened()
    assert puppet.result("alloc linear 64") == 0
    assert puppet.result("free other") == 0
    assert world.use(puppet).tracked_bytes == 0
    assert puppet.result("alloc async 64") == 0
    assert puppet.result("free other") == 0
    assert puppet.result("free all") == 0
    assert world.use(puppet).tracked_bytes == 0
    assert puppet.result("free unknown") == 1  # the driver's own answer


def test_what_no_device_pays_for_is_not_charged(world: World) -> None:
    world.limit(1000)
    puppet = world.opened()
    for kind in ("host", "deferred"):
        assert puppet.result(f"alloc {kind} 5000") == 0
    assert world.use(puppet).tracked_bytes == 0
    # A capture allocates nothing: it makes a node. The stub's driver allocates all the same, which shows that the
    # call was passed on.
    assert puppet.result("alloc captured 2000") == 0


def test_virtual_memory_is_charged_until_its_last_mapping_is_gone(world: World) -> None:
    world.limit(1000)
    puppet = world.opened()
    assert puppet.result("alloc virtual 64") == 0
    assert puppet.result("map") == 0
    assert world.use(puppet).tracked_bytes == 64 * MIB
    assert puppet.result("unmap 64") == 0
    assert world.use(puppet).tracked_bytes == 64 * MIB
    assert puppet.result("unmap 128") == 0
    assert world.use(puppet).tracked_bytes == 0


def test_a_graph_that_frees_what_it_allocates_needs_it_once(world: World) -> None:
    world.limit(1000)
    puppet = world.opened()
    for _ in range(40):
        assert puppet.result("alloc passing 500") == 0
    assert puppet.result("alloc graph 950") == OUT_OF_MEMORY
    assert puppet.result("trim graphs") == 0
    assert world.use(puppet).tracked_bytes == 0


def test_a_graph_is_launched_again_while_it_still_runs(world: World) -> None:
    """Its memory stays mapped and counts as used; it must not be asked for a second time."""
    world.limit(1000)
    puppet = world.opened(STUB_GRAPHS_RUN="1")
    assert puppet.result("alloc again 600") == 0
    assert puppet.result("alloc again 600") == OUT_OF_MEMORY  # another one may run at the same time
    assert world.real_mib() <= 1000


def test_a_context_that_ends_frees_what_was_allocated_in_it(world: World) -> None:
    world.limit(1000)
    puppet = world.opened()
    assert puppet.result("alloc linear 100") == 0
    assert puppet.result("context") == 0
    assert puppet.result("alloc linear 500") == 0
    assert puppet.result("alloc linear 300") == OUT_OF_MEMORY  # the second context takes memory too
    assert puppet.result("end context") == 0
    assert world.use(puppet).tracked_bytes == 100 * MIB
    assert puppet.result("alloc linear 700") == 0
    assert puppet.result("reset") == 0
    assert world.use(puppet).tracked_bytes == 0
    assert puppet.result("open 0") == 0
    assert puppet.ask("info") == ["0", "900", "1000"]


def test_memory_that_the_driver_does_not_attribute_is_assumed(world: World) -> None:
    world.limit(1000)
    puppet = world.opened(STUB_HIDES_PROCESSES="1")
    assert puppet.result("alloc linear 64") == 0
    assert world.use(puppet).overhead_bytes == 250 * MIB  # 512 MiB, but never more than a quarter of the share
    other = world.opened(STUB_NO_NVML="1")
    assert other.result("alloc linear 64") == 0
    assert world.use(other).overhead_bytes == 250 * MIB


def test_the_cards_own_refusal_is_passed_on_and_counted_apart(world: World) -> None:
    world.limit(9000)
    outside = world.start(is_limited=False)
    assert outside.result("open 0") == 0
    assert outside.result("alloc linear 8000") == 0
    puppet = world.opened()
    assert puppet.result("alloc linear 3000") == OUT_OF_MEMORY
    assert world.use(puppet).refusals == 0
    assert world.use(puppet).tracked_bytes == 0


def test_two_processes_share_one_limit_and_a_killed_one_gives_its_part_back(world: World) -> None:
    world.limit(1000)
    first, second = world.opened(), world.opened()
    assert first.result("alloc linear 500") == 0
    assert second.ask("info") == ["0", "300", "1000"]
    assert second.result("alloc linear 400") == OUT_OF_MEMORY
    first.kill()
    assert second.ask("info") == ["0", "900", "1000"]  # programs look before they ask
    assert second.result("alloc linear 400") == 0
    assert world.real_mib() == 500
    assert world.use(second).refusals == 1
    third = world.opened()  # takes the slot of the dead one
    assert third.result("alloc linear 400") == 0
    assert third.result("alloc linear 1") == OUT_OF_MEMORY
    assert {each.slot for each in world.contents().slots} == {0, 1}


def test_processes_that_race_for_the_last_block_are_never_above_the_limit(world: World) -> None:
    """And as many of them get a block as fit: a collision is no refusal."""
    world.limit(16 * CONTEXT_MIB + 10 * 64)
    puppets = [world.opened() for _ in range(16)]
    for _ in range(8):
        for puppet in puppets:
            puppet.send("alloc linear 64")
        results = [int(puppet.answer()[0]) for puppet in puppets]
        assert (results.count(0), results.count(OUT_OF_MEMORY)) == (10, 6)
        assert world.real_mib() == 16 * CONTEXT_MIB + 10 * 64
        for puppet, result in zip(puppets, results, strict=True):
            if result == 0:
                assert puppet.result("free") == 0


def test_after_kills_at_random_moments_the_whole_share_is_free(world: World) -> None:
    world.limit(2000)
    moments = random.Random(1)
    for _ in range(30):
        puppet = world.opened()
        puppet.send("threads 4 100000 100")
        try:
            puppet.process.wait(timeout=moments.random() * 0.02)
        except Exception:
            puppet.kill()
    last = world.opened()
    assert last.result(f"alloc linear {2000 - CONTEXT_MIB}") == 0
    assert world.real_mib() == 2000


def test_a_limit_may_change_while_programs_run(world: World) -> None:
    world.limit(500)
    puppet = world.opened()
    assert puppet.result("alloc linear 400") == 0
    assert puppet.result("alloc linear 100") == OUT_OF_MEMORY
    _write_limit(world.share, 1000)
    assert puppet.result("alloc linear 100") == 0
    _write_limit(world.share, 200)  # below what is in use: nothing is taken away
    assert puppet.ask("info") == ["0", "0", "200"]
    assert puppet.result("alloc linear 1") == OUT_OF_MEMORY
    assert puppet.result("free all") == 0
    assert puppet.result("alloc linear 64") == 0


def _write_limit(share: Path, mib: int) -> None:
    at = encode_share("", [SharedDevice(uuid=uuid(0), limit_bytes=0x1234567890)]).index(
        (0x1234567890).to_bytes(8, "little")
    )
    with share.open("r+b") as file:
        file.seek(at)
        file.write((mib * MIB).to_bytes(8, "little"))


@pytest.mark.parametrize("order", ["01", "10", "32", "213"])
def test_each_device_has_its_own_limit_whatever_the_order_of_devices(world: World, order: str) -> None:
    """CUDA, NVML and the share file each have an order of their own; only UUIDs are compared."""
    devices = [SharedDevice(uuid=uuid(card), limit_bytes=(1000 + 100 * card) * MIB) for card in (2, 0, 1)]
    world.share.write_bytes(encode_share("test", devices))
    puppet = world.start(STUB_DEVICES=order)
    for ordinal, card in enumerate(map(int, order)):
        total = 1000 + 100 * card if card != 3 else 10000  # card 3 is not in the share
        assert puppet.ask(f"total {ordinal}") == ["0", str(total)]
        assert puppet.result(f"open {ordinal}") == 0
        assert puppet.ask("info")[2] == str(total)
        shown = puppet.ask(f"nvml {3 - card}")
        assert shown[:4] == [str(card), str(total), str(CONTEXT_MIB), str(total)]
        # Twice as much as fits into any of them.
        assert puppet.result("alloc linear 2500") == (OUT_OF_MEMORY if card != 3 else 0)


def test_every_way_to_the_driver_leads_to_the_library(world: World) -> None:
    world.limit(1000)
    assert world.opened().ask("ways") == ["0"]


def test_a_driver_with_other_addresses_than_it_exports_is_matched_by_name(world: World) -> None:
    world.limit(1000)
    puppet = world.opened(STUB_OTHER_ADDRESSES="1", GPUFRAC_LOG="2")
    assert puppet.ask("ways") == ["0"]
    assert puppet.result("alloc linear 64") == 0
    assert puppet.result("alloc linear 2000") == OUT_OF_MEMORY
    assert "cuMemAlloc_v2 matched by name" in puppet.end()


def test_a_driver_that_looks_itself_up_while_it_is_loaded_does_not_hang(world: World) -> None:
    text = "import ctypes; print(ctypes.CDLL(None).cuInit(0))"
    variables = world.built.environment(**world.variables, STUB_LOOKS_UP="1")
    done = subprocess.run([sys.executable, "-c", text], env=variables, capture_output=True, text=True, timeout=30)
    assert done.stdout == "0\n", done.stderr


def test_nvml_shows_the_share_and_its_own_processes(world: World) -> None:
    world.limit(1000)
    outside = world.start(is_limited=False)
    assert outside.result("open 0") == 0
    first, second = world.opened(), world.opened()
    assert first.result("alloc linear 300") == 0
    watcher = world.start()  # like nvidia-smi: it takes no slot
    words = watcher.ask("nvml 3")
    assert words[:7] == ["0", "1000", "500", "1000", "0", "2", "7"]
    assert words[7:9] == [f"{first.pid}:400", f"{second.pid}:100"]
    assert words[9] == "drawing:2"  # not the process outside
    assert len(world.contents().slots) == 2
    assert outside.ask("nvml 3")[1:3] == ["10000", "600"]  # the truth


def test_a_refusal_is_reported_once_with_its_figures(world: World) -> None:
    world.limit(1000)
    puppet = world.opened()
    for _ in range(3):
        assert puppet.result("alloc linear 950") == OUT_OF_MEMORY
    said = "out of GPU memory: 950 MiB asked for, 100 of the share's 1000 MiB are in use"
    assert puppet.end() == f"gpufrac[{puppet.pid}]: {said}\n"


BROKEN = {
    "missing": None,
    "empty": b"",
    "short": encode_share("x", [SharedDevice(uuid=uuid(0), limit_bytes=MIB)])[:-1],
    "of another version": encode_share("x", [SharedDevice(uuid=uuid(0), limit_bytes=MIB)]).replace(
        b"GPUFRAC\0\1", b"GPUFRAC\0\2", 1
    ),
    "zeros": bytes(FILE_BYTES),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_share_file_that_cannot_be_used_limits_nothing_and_says_so(world: World, content: bytes | None) -> None:
    if content is not None:
        world.share.write_bytes(content)
    puppet = world.opened()
    assert puppet.result("alloc linear 5000") == 0
    assert puppet.ask("info")[2] == "10000"
    assert "GPU memory is not limited" in puppet.end()
    required = world.start(GPUFRAC_REQUIRE="1")
    assert required.result("open 0") == 802  # CUDA_ERROR_SYSTEM_NOT_READY
    assert "CUDA is refused" in required.end()


def test_the_variable_that_switches_it_off_is_not_honoured(world: World) -> None:
    world.limit(1000)
    puppet = world.opened(GPUFRAC_DISABLE="1")
    assert puppet.result("alloc linear 2000") == OUT_OF_MEMORY


@pytest.mark.parametrize("world", ["address"], indirect=True)
def test_random_bytes_in_the_share_file_crash_no_program(world: World) -> None:
    """A program of the share can write anything there. It may lose its own limit, and nothing else."""
    dice = random.Random(2)
    whole = encode_share("fuzz", [SharedDevice(uuid=uuid(card), limit_bytes=1000 * MIB) for card in range(4)])
    for _ in range(40):
        content = bytearray(whole)
        for _ in range(dice.choice((1, 10, 200))):
            at = dice.randrange(len(content) if dice.random() < 0.3 else 4096 + 2000)
            content[at : at + 8] = dice.choice((b"\xff" * 8, b"\0" * 8, dice.randbytes(8)))
        content[32:36] = b"\1\0\0\0"  # ready: else it waits for ten seconds
        world.share.write_bytes(bytes(content[:FILE_BYTES]))
        puppet = world.start(GPUFRAC_LOG="0")
        for command in ("open 0", "alloc linear 64", "alloc async 64", "alloc graph 64", "info", "nvml 3", "free all"):
            puppet.ask(command)
        assert puppet.end() == ""
        assert puppet.process.returncode == 0


def test_only_old_symbols_of_the_c_library_are_needed(builds: Callable[[str], Built]) -> None:
    for name in ("gcc", "clang"):
        table = subprocess.run(
            ["objdump", "-T", builds(name).folder / "libgpufrac.so"], capture_output=True, text=True, check=True
        ).stdout
        versions = {tuple(map(int, word.strip("()")[6:].split("."))) for word in table.split() if "GLIBC_2" in word}
        assert max(versions) <= (2, 17), versions
