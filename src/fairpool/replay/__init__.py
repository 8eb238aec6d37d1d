"""Saved snapshots planned again, what-if changes to them, and an example to try."""
