"""Pods on Kubernetes: a thin client of the API server, and the engine that uses it."""
