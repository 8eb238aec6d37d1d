"""Limits and paths of the API that server and client share. Next to no imports, because every command loads it."""

from __future__ import annotations

from fairpool.model.ids import NAME_PATTERN as NAME_PATTERN
from fairpool.model.ids import WORKLOAD_NAME_MAX as WORKLOAD_NAME_MAX

PROJECTS = "/api/v1/org-unit/projects"
CREDENTIALS = "/api/v1/asset/credentials"
USAGE = "/api/v1/accounting/usage"
PRICES = "/api/v1/accounting/prices"
TENANT_ID = 1
"""An installation is one tenant; the original's client wants a number."""
PAGE_DEFAULT = 50
PAGE_MAX = 500
"""Items of one page."""
TEMPLATE_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
SECRET_KEY_PATTERN = r"^\.?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,251}$"
"""A key of a credential is also the name of a file."""
SECRET_MAX_BYTES = 1024 * 1024
"""All values of one credential together."""
SECRET_KEYS_MAX = 256
PROJECT_NAME_MAX = 57  # `runai-<name>` is a namespace, and those have at most 63 characters
LABEL_NAME_MAX = 63
PASSWORD_MIN = 8
GENERATED_PASSWORD_MIN = 20  # of a first password that an installer generated and that cannot be guessed
PASSWORD_MAX = 1024  # a longer one would make hashing a way to keep the server busy
PIECE_MAX_BYTES = 4 * 1024 * 1024
"""One piece of an upload."""
GPU_FIELDS = (
    *("gpu", "gpuDevicesRequest", "gpuRequestType", "gpuPortionRequest", "gpuPortionLimit"),
    *("gpuMemoryRequest", "gpuMemoryLimit", "migProfile"),
)
"""Of `compute`: the ways to ask for GPUs. Those of a lower precedence do not mix with one that is given."""
