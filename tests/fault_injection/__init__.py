"""Fault injection: an unreliable engine, random faults and random workloads, by seed."""
