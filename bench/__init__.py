"""Benchmarks: one module each, for `make bench` or `python -m bench.<name>`; shared parts begin with `_`."""
