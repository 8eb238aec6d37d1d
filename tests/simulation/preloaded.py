"""What the fork server of worlds with two processes has loaded: also what is otherwise imported at its first use."""

from __future__ import annotations

import encodings.idna
import gc

from fairpool.api.cluster_client import ClusterClient
from tests.simulation import two_process_world

__all__ = ["encodings", "two_process_world"]

ClusterClient("http://127.0.0.1:1", "").close()  # a client imports half of its library when it is made
gc.freeze()  # pages that are not written to are shared
