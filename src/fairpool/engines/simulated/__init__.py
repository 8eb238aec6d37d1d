"""Simulated engine: nodes and pods as values, in virtual time."""
