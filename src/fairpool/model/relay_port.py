"""The port of the relay in a pod's network, which pods cannot have. Without imports: shims load it."""

RELAY_PORT = 65530
"""The relay listens there in every pod that has a network of its own; see `agent/pod_network.py`."""
