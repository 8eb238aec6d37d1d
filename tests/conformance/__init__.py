"""Conformance: what the scheduler decides on cases whose outcome is known from the reference.

`python -m tests.conformance DIR` runs every case below a folder. From the outside in: `case` finds the cases, `judge`
runs one and says what differed, `cycle` plays scheduling cycles, `world` turns a case into a snapshot, `match` compares
the outcome. `units` holds the suites that test a single decision.
"""
