"""Which of the nodes where a pod fits is best.

The terms are of different magnitude on purpose, so that a lower one only decides between nodes that are alike in the
higher ones: nominated node, closeness in a topology, a device already shared, free at once, a node without GPUs for a
pod without, and last the placement strategy.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairpool.model.node import Placement
from fairpool.model.workload import GpuKind
from fairpool.scheduler.board import COMING, LEAVING, STAYING, Board
from fairpool.scheduler.fit import Fit, Room, soft_taints
from fairpool.scheduler.policy import ScoreTerm

NOMINATED = 1_000_000
CLOSENESS = 10_000
SHARING = 1_000
AVAILABLE = 100
NO_GPUS = 10

Score = tuple[float, float]
"""Sum of the higher terms, and the placement strategy's term."""


def score(fit: Fit, pod: int, node: int, room: Room, closeness: Mapping[int, int]) -> Score:
    """How good a node is for a pod; larger is better."""
    board = fit.board
    terms = board.policy.score_terms
    higher = 0.0
    if ScoreTerm.NOMINATED in terms and board.pods[pod].nominated == board.nodes.names[node]:
        higher += NOMINATED
    if ScoreTerm.TOPOLOGY in terms and closeness:
        higher += CLOSENESS * closeness.get(node, 0)
    if ScoreTerm.SHARING in terms and _joins_shared(fit, pod, node):
        higher += SHARING
    if ScoreTerm.AVAILABILITY in terms and _is_available(fit, pod, node, room):
        higher += AVAILABLE
    if ScoreTerm.RESOURCE_TYPE in terms and _is_plain_for_plain(board, pod, node):
        higher += NO_GPUS
    if ScoreTerm.SOFT_TAINTS in terms:
        higher -= soft_taints(board.shape(pod), board.nodes.rows[node])
    return higher, _placement(board, pod, node) if ScoreTerm.PLACEMENT in terms else 0.0


def _joins_shared(fit: Fit, pod: int, node: int) -> bool:
    board = fit.board
    if board.is_shared[board.shape_of[pod]]:
        return bool(fit.hosts(pod, node))
    if not board.policy.cpu_pods_join_shared or board.shape(pod).gpu.kind is not GpuKind.NONE:
        return False
    return any(device[STAYING] or device[LEAVING] for device in board.nodes.shared[node].values())


def _is_available(fit: Fit, pod: int, node: int, room: Room) -> bool:
    """Free at once, on whichever device: which one it gets is another question."""
    board = fit.board
    if room.now or not board.is_shared[board.shape_of[pod]]:
        return room.now
    return fit.amounts_fit_now(pod, node) and (board.nodes.gpus_idle[node] >= 1 or fit.hosts_now(pod, node))


def _is_plain_for_plain(board: Board, pod: int, node: int) -> bool:
    row = board.nodes.rows[node]
    return board.shape(pod).gpu.kind is GpuKind.NONE and not row.gpus and not row.mig_instances


def _placement(board: Board, pod: int, node: int) -> float:
    """Pack: fullest first. Spread: the largest free part first."""
    on_gpus = board.shape(pod).gpu.kind is not GpuKind.NONE
    strategy = board.policy.gpu_placement if on_gpus else board.policy.cpu_placement
    free = free_gpus_milli(board, node) if on_gpus else board.nodes.cpu_idle[node] + board.nodes.cpu_releasing[node]
    if strategy is Placement.BINPACK:
        return -free
    capacity = 1000 * board.nodes.gpus[node] if on_gpus else board.nodes.rows[node].cpu_milli
    return free / capacity if capacity else 0.0


def free_gpus_milli(board: Board, node: int) -> float:
    """GPUs that are idle or being released, parts of shared devices included if the policy looks at them."""
    nodes = board.nodes
    free: float = 1000 * (nodes.gpus_idle[node] + nodes.gpus_releasing[node])
    if board.policy.pack_partial_devices:
        mib = nodes.device_mib[node]
        for device in nodes.shared[node].values():
            used = device[STAYING] + device[COMING]
            if used:
                free += 1000 * (mib - used) // mib
    return free
