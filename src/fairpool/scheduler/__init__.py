"""The scheduler: a pure function from a snapshot of a node pool to a plan. Read `plan.py` first."""
