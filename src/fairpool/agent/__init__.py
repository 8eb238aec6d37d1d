"""What runs on a node: devices, pods and their keepers. Knows the model and nothing above it."""
