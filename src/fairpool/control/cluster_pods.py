"""Access to the pods of every cluster: of the cluster in this process directly, of the others through their tunnels."""

from __future__ import annotations

from fairpool.control.pod_access import PodAccess
from fairpool.control.tunnel import TunnelPodAccess, Tunnels

HOLDERS_MAX = 10_000


class ClusterPods:
    """Pod access by cluster."""

    def __init__(self, local: PodAccess | None = None) -> None:
        """`local`: access to the pods of the cluster in this process, if there is one."""
        self.tunnels = Tunnels()
        self.local_cluster = ""
        """Its id; empty while it is not known, and then all pods are taken for its own."""
        self._local = local
        self._holders: dict[str, str] = {}

    def of(self, cluster: str) -> PodAccess:
        """Access to the pods of this cluster. Whether it is connected shows when it is used."""
        if self._local is not None and self.local_cluster in ("", cluster):
            return self._local
        return TunnelPodAccess(self.tunnels, cluster)

    def reachable(self) -> list[str]:
        """The clusters that can be asked now."""
        local = [] if self._local is None else [self.local_cluster]
        return [*local, *(each for each in self.tunnels.clusters() if each not in local)]

    def holder(self, upload_id: str) -> str | None:
        """The cluster that has an upload, if it was seen there."""
        return self._holders.get(upload_id)

    def note_holder(self, upload_id: str, cluster: str) -> None:
        if len(self._holders) >= HOLDERS_MAX:
            self._holders.clear()
        self._holders[upload_id] = cluster
