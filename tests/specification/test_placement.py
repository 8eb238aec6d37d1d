"""Where a pod goes: amounts, portions of devices, labels, taints, topology, packing and spreading."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairpool.model.node import NodePool, Placement
from tests.scenario import World, check

SPREADING = NodePool(gpu_placement=Placement.SPREAD, cpu_placement=Placement.SPREAD)


def test_two_halves_share_one_device() -> None:
    """F-45, F-78."""
    check("""
        node    n1: 2 gpus
        queue   vision: quota 2
        pending a of vision: 0.5 gpu
        pending b of vision: 0.5 gpu
        then    bind a on n1 device 0
        then    bind b on n1 device 0
    """)


def test_eight_eighths_share_one_device() -> None:
    """F-79."""
    world = World("""
        node  n1: 2 gpus, of 32510 MiB
        queue vision: quota 2
    """)
    for number in range(8):
        world.submit(f"e{number} of vision: 0.125 gpu")
    decided = world.cycle()
    assert [each.devices for each in decided.binds] == [(0,)] * 8
    world.submit("ninth of vision: 0.125 gpu")
    assert [each.devices for each in world.cycle().binds] == [(1,)]


def test_portions_fill_the_fullest_device_first() -> None:
    check("""
        node    n1: 3 gpus
        queue   vision: quota 3
        running a of vision: 0.3 gpu on n1, device 0
        running b of vision: 0.6 gpu on n1, device 2
        pending c of vision: 0.4 gpu
        then    bind c on n1 device 2
    """)


def test_portions_that_do_not_fit_together_open_another_device() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 2
        running a of vision: 0.6 gpu on n1, device 0
        pending b of vision: 0.6 gpu
        then    bind b on n1 device 1
    """)


def test_a_portion_of_several_devices_is_on_different_devices() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 4
        running a of vision: 0.5 gpu on n1, device 1
        pending b of vision: 2 x 0.5 gpus
        then    bind b on n1 devices 0 1
    """)


def test_a_portion_of_several_devices_does_not_fit_twice_on_one() -> None:
    check("""
        node    n1: 1 gpu
        queue   vision: quota 4
        pending b of vision: 2 x 0.5 gpus
        then    wait b: no node matches
    """)


def test_whole_gpus_avoid_shared_devices() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 2
        running a of vision: 0.1 gpu on n1, device 0
        pending b of vision: 1 gpu
        then    bind b on n1 device 1
    """)


def test_a_whole_gpu_does_not_fit_on_two_halves() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 2
        running a of vision: 0.5 gpu on n1, device 0, build
        running b of vision: 0.5 gpu on n1, device 1, build
        pending c of vision: 1 gpu
        then    wait c: fragmented
    """)


def test_gpu_memory_is_a_portion_of_the_devices_exact_memory() -> None:
    """F-85: twice 16 255 MiB is one V100, and a MiB more is not."""
    check("""
        node    n1: 2 gpus, of 32510 MiB
        queue   vision: quota 2
        running a of vision: 16255 MiB on n1, device 0
        pending b of vision: 16255 MiB
        pending c of vision: 1 MiB
        then    bind b on n1 device 0
        then    bind c on n1 device 1
    """)


def test_gpu_memory_and_portions_share_a_device() -> None:
    check("""
        node    n1: 2 gpus, of 10000 MiB
        queue   vision: quota 2
        running a of vision: 0.25 gpu on n1, device 0
        pending b of vision: 7500 MiB
        then    bind b on n1 device 0
    """)


def test_more_gpu_memory_than_a_device_has_waits() -> None:
    check("""
        node    n1: 2 gpus, of 10000 MiB
        queue   vision: quota 8
        pending b of vision: 10001 MiB
        then    wait b: no node matches
    """)


def test_gpu_memory_goes_only_where_it_is_known() -> None:
    check("""
        node    n1: 2 gpus
        node    n2: 2 gpus, of 10000 MiB
        queue   vision: quota 8
        pending b of vision: 1000 MiB
        then    bind b on n2
    """)


def test_gpu_memory_is_charged_by_device_and_portion() -> None:
    """Two devices, half of each, are one GPU of quota."""
    check("""
        node    n1: 4 gpus, of 10000 MiB
        queue   vision: quota 1
        pending a of vision: 2 x 5000 MiB, build
        pending b of vision: 1 MiB, build
        then    bind a on n1 devices 0 1
        then    wait b: over quota
    """)


def test_withheld_devices_are_not_given_out() -> None:
    check("""
        node    n1: 3 gpus, withheld 0 2
        queue   vision: quota 3
        pending a of vision: 1 gpu
        pending b of vision: 1 gpu
        then    bind a on n1 device 1
        then    wait b
    """)


def test_mig_instances_are_counted_by_profile() -> None:
    """F-91."""
    check("""
        node    n1: 0 gpus, mig 1g.5gb x 2, mig 3g.20gb x 1
        queue   vision: quota 2
        pending a of vision: mig 3g.20gb x 1
        pending b of vision: mig 3g.20gb x 1
        pending c of vision: gang of 2, mig 1g.5gb x 1
        then    bind a on n1
        then    bind c on n1
        then    wait b
    """)


def test_packing_fills_a_node_before_it_opens_the_next() -> None:
    """F-45."""
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 1 gpu on n2
        pending b of vision: 1 gpu
        pending c of vision: 1 gpu
        then    bind b on n2
        then    bind c on n2
    """)


def test_packing_counts_free_parts_of_devices() -> None:
    """Both nodes have one idle device; n2 has half a device more, so n1 is the fuller one."""
    check("""
        node    n1: 2 gpus
        node    n2: 2 gpus
        queue   vision: quota 4
        running a of vision: 0.5 gpu on n2, build
        running b of vision: 1 gpu on n1, build
        pending c of vision: 1 gpu
        then    bind c on n1
    """)


def test_spreading_opens_the_emptiest_node() -> None:
    check(
        """
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 1 gpu on n2
        pending b of vision: 1 gpu
        then    bind b on n1
        """,
        pool=SPREADING,
    )


def test_spreading_opens_a_fresh_device() -> None:
    check(
        """
        node    n1: 2 gpus
        queue   vision: quota 2
        running a of vision: 0.5 gpu on n1, device 0
        pending b of vision: 0.5 gpu
        then    bind b on n1 device 1
        """,
        pool=SPREADING,
    )


def test_the_strategy_belongs_to_the_node_pool() -> None:
    world = World("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 1 gpu on n2
        pending b of vision: 1 gpu
    """)
    world.snapshot = replace(world.snapshot, pool=NodePool(gpu_placement=Placement.SPREAD))
    assert [each.node for each in world.plan().binds] == ["n1"]


def test_work_without_gpus_goes_to_nodes_without_gpus() -> None:
    check("""
        node    n1: 4 gpus, 8 cpus
        node    n2: 0 gpus, 64 cpus
        queue   vision: quota 4
        pending a of vision: no gpu, 4 cpus
        then    bind a on n2
    """)


def test_cpu_and_memory_must_fit_too() -> None:
    check("""
        node    n1: 4 gpus, 8 cpus, 64 GB
        queue   vision: quota 4
        running a of vision: 1 gpu, 6 cpus, 16 GB on n1
        pending b of vision: 1 gpu, 4 cpus, 16 GB
        pending c of vision: 1 gpu, 1 cpu, 60 GB
        pending d of vision: 1 gpu, 1 cpu, 16 GB
        then    bind d on n1
        then    wait b
        then    wait c
    """)


def test_a_node_takes_no_more_pods_than_it_has_slots() -> None:
    check("""
        node    n1: 4 gpus, 1 pods
        queue   vision: quota 4
        pending a of vision: 1 gpu
        pending b of vision: 1 gpu
        then    bind a on n1
        then    wait b
    """)


def test_a_node_selector_is_kept() -> None:
    """F-70."""
    check("""
        node    n1: 4 gpus, label gpu=v100
        node    n2: 4 gpus, label gpu=a100
        queue   vision: quota 8
        pending a of vision: 1 gpu, on nodes gpu=a100
        pending b of vision: 1 gpu, on nodes gpu=h100
        then    bind a on n2
        then    wait b: no node matches "gpu=h100"
    """)


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_taint_keeps_away_pods_that_do_not_tolerate_it(effect: str) -> None:
    check(f"""
        node    n1: 4 gpus, taint reserved=vision:{effect}
        queue   vision: quota 4
        pending a of vision: 1 gpu
        pending b of vision: 1 gpu, tolerates reserved=vision
        pending c of vision: 1 gpu, tolerates reserved=speech
        then    bind b on n1
        then    wait a: no node matches "reserved=vision"
        then    wait c: no node matches
    """)


def test_a_soft_taint_is_avoided_where_possible() -> None:
    check("""
        node    n1: 1 gpu, taint old=yes:PreferNoSchedule
        node    n2: 4 gpus
        queue   vision: quota 8
        pending a of vision: 1 gpu
        then    bind a on n2
    """)


def test_a_soft_taint_stops_no_pod() -> None:
    check("""
        node    n1: 1 gpu, taint old=yes:PreferNoSchedule
        queue   vision: quota 8
        pending a of vision: 1 gpu
        then    bind a on n1
    """)


def test_pods_with_gpus_go_to_gpu_workers_and_the_others_to_cpu_workers() -> None:
    """F-99, F-100: the fuller node would be better for each of them."""
    check("""
        node    n1: 1 gpu, role cpu worker
        node    n2: 8 gpus, role gpu worker
        queue   vision: quota 8
        pending a of vision: 1 gpu
        pending b of vision: 0.5 gpu
        pending c of vision: 1 cpu
        then    bind a on n2
        then    bind b on n2
        then    bind c on n1
    """)


def test_a_system_worker_takes_no_pod_and_a_verdict_names_the_role() -> None:
    """F-97."""
    check("""
        node    n1: 8 gpus, role system
        node    n2: 0 gpus
        queue   vision: quota 8
        pending a of vision: 1 gpu
        pending b of vision: 1 cpu
        then    wait a: no node matches "system worker (1 node); change the role of a node: `runai-adm remove node-role"
        then    bind b on n2
    """)


def test_a_node_without_a_role_takes_nothing_where_others_are_workers() -> None:
    """F-103. Another role would not give the last node more GPUs, so its size is the reason there."""
    check("""
        node    n1: 4 gpus, role none
        node    n2: 4 gpus, cordoned, role cpu worker
        node    n3: 0 gpus, role cpu worker
        queue   vision: quota 8
        pending a of vision: 1 gpu
        then    wait a: no node matches "cordoned (1 node), no GPUs (1 node), not a GPU worker (1 node)"
        then    wait a: no node matches "change the role of a node: `runai-adm set node-role --gpu-worker NODE`"
    """)


def test_gpus_of_nodes_that_take_no_gpu_pods_are_not_shared_out() -> None:
    world = World("""
        node    n1: 4 gpus, role gpu worker
        node    n2: 4 gpus, role cpu worker
        queue   vision: quota 0
        queue   speech: quota 0
        pending a of vision: 4 pods, 1 gpu
        pending b of speech: 4 pods, 1 gpu
    """)
    assert [each.fair_share_milli for each in world.cycle().queues] == [2000, 2000]


def test_a_running_pod_stays_where_the_role_of_its_node_would_not_let_it_start() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 8
        running a of vision: 1 gpu on n1
        node    n1: 4 gpus, role cpu worker
        then    nothing
    """)


def test_of_the_nodes_with_room_a_preferred_one_is_taken() -> None:
    check("""
        node    n1: 4 gpus
        node    n2: 8 gpus, label disk=ssd
        queue   vision: quota 8
        running a of vision: 0.5 gpu on n1, device 0
        pending b of vision: 0.5 gpu, prefers disk=ssd
        pending c of vision: 0.5 gpu
        then    bind b on n2
        then    bind c on n1
    """)


def test_the_weights_of_preferences_add_up() -> None:
    check("""
        node    n1: 8 gpus, label disk=ssd, label net=ib
        node    n2: 8 gpus, label zone=a
        node    n3: 4 gpus
        queue   vision: quota 8
        pending b of vision: 1 gpu, prefers disk=ssd weight 3, prefers net=ib weight 3, prefers zone=a weight 5
        pending c of vision: 1 gpu, prefers disk=ssd weight 3, prefers net=ib weight 3, prefers zone=a weight 9
        then    bind b on n1
        then    bind c on n2
    """)


def test_a_preference_keeps_no_pod_waiting() -> None:
    check("""
        node    n1: 1 gpu
        node    n2: 1 gpu, label disk=ssd
        queue   vision: quota 8
        leaving a of vision: 1 gpu on n2
        pending b of vision: 1 gpu, prefers disk=ssd
        then    bind b on n1
    """)


@pytest.mark.parametrize("state", ["cordoned", "not ready"])
def test_nothing_new_goes_to_a_node_that_is_out_of_service(state: str) -> None:
    check(f"""
        node    n1: 4 gpus
        node    n2: 1 gpu
        queue   vision: quota 8
        running a of vision: 1 gpu on n1
        node    n1: 4 gpus, {state}
        pending b of vision: 1 gpu
        pending c of vision: 1 gpu
        then    bind b on n2
        then    wait c
    """)


def test_a_node_that_refused_a_group_is_avoided() -> None:
    """A node that refused its pods lately does not win them again every cycle."""
    check("""
        node    n1: 2 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        pending a of vision: 1 gpu, avoiding n1
        pending b of vision: 1 gpu
        then    bind a on n2
        then    bind b
    """)


def test_a_group_that_every_node_refused_waits() -> None:
    check("""
        node    n1: 2 gpus
        queue   vision: quota 8
        pending a of vision: 1 gpu, avoiding n1
        pending b of vision: 1 gpu
        then    bind b on n1
        then    wait a: no node matches
    """)


def test_a_nominated_node_wins_over_packing() -> None:
    check("""
        node    n1: 4 gpus
        node    n2: 4 gpus
        queue   vision: quota 8
        running a of vision: 1 gpu on n1
        pending b of vision: 1 gpu, nominated n2
        then    bind b on n2
    """)


def test_a_place_that_is_free_now_wins_over_packing() -> None:
    check("""
        node    n1: 1 gpu
        node    n2: 4 gpus
        queue   vision: quota 8
        leaving a of vision: 1 gpu on n1
        pending b of vision: 1 gpu
        then    bind b on n2
    """)


# --- topology ------------------------------------------------------------------------------------------------

TWO_ZONES = """
        topology net: zone rack
        node    a1: 2 gpus, label zone=a, label rack=a1
        node    a2: 1 gpu, label zone=a, label rack=a2
        node    a3: 1 gpu, label zone=a, label rack=a3
        node    a4: 1 gpu, label zone=a, label rack=a4
        node    b1: 2 gpus, label zone=b, label rack=b1
        node    b2: 2 gpus, label zone=b, label rack=b2
        node    b3: 2 gpus, label zone=b, label rack=b3
        queue   vision: quota 20
"""


def test_a_gang_goes_to_the_tightest_domain_and_together_inside_it() -> None:
    """The example of the rules, 6.5; F-49."""
    world = World(TWO_ZONES + "pending g of vision: gang of 3, 1 gpu, within zone of net, preferring rack of net")
    world.cycle()
    assert world.nodes("g") <= {"a1", "a2", "a3", "a4"}
    assert sum(pod.node == "a1" for pod in world.pods("g")) == 2


def test_a_required_domain_is_kept_although_more_is_free_elsewhere() -> None:
    check(
        TWO_ZONES
        + """
        pending g of vision: gang of 3, 1 gpu, within rack of net
        pending h of vision: gang of 7, 1 gpu, within zone of net
        then    wait g: no domain fits "rack"
        then    wait h: no domain fits "zone"
    """
    )


def test_a_preferred_domain_is_only_preferred() -> None:
    world = World(TWO_ZONES + "pending g of vision: gang of 7, 1 gpu, preferring zone of net")
    world.cycle()
    assert world.running() == ["g"]


def test_a_growing_group_stays_in_its_required_domain() -> None:
    check(
        TWO_ZONES
        + """
        running g of vision: 1 to 3 pods, 1 placed, 1 gpu on a2, within zone of net
        running x of vision: gang of 4, 1 gpu on a1 a1 a3 a4, build
        then    wait g
    """
    )


def test_each_part_of_a_group_has_a_domain_of_its_own() -> None:
    world = World(
        TWO_ZONES
        + """
        pending g of vision: set l of 2 within rack of net, set r of 2 within rack of net, 1 gpu, within zone of net
    """
    )
    world.cycle()
    places: dict[str, set[str | None]] = {}
    for pod in world.pods("g"):
        places.setdefault(pod.pod_set, set()).add(pod.node)
    assert all(len(nodes) == 1 for nodes in places.values())
    assert world.nodes("g") <= {"b1", "b2", "b3"}


def test_a_topology_that_does_not_exist_holds_the_group_back() -> None:
    check("""
        node    n1: 4 gpus
        queue   vision: quota 4
        pending g of vision: gang of 2, 1 gpu, within rack of nowhere
        pending h of vision: 1 gpu
        then    bind h on n1
        then    wait g
    """)


def test_no_pod_joins_a_sharer_on_a_withheld_device() -> None:
    check("""
        node    n1: 2 gpus, withheld 1
        queue   vision: quota 4
        running r of vision: 0.3 gpu on n1, device 1
        pending w of vision: 0.5 gpu
        then    bind w on n1 device 0
    """)


def test_what_holds_a_withheld_device_takes_nothing_from_the_others() -> None:
    check("""
        node    n1: 2 gpus, withheld 1
        queue   vision: quota 4
        running r of vision: 1 gpu on n1, device 1
        pending w of vision: 1 gpu
        then    bind w on n1 device 0
    """)
