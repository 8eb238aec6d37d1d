"""Settings for generated worlds: the same ones every time, few for `make test-fast`, more where a test is marked slow."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fairpool",
    derandomize=True,
    deadline=None,
    max_examples=20,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("fairpool")
