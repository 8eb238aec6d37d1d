"""What runs on a node: devices, pods and their shims. Knows the model and nothing above it."""
