"""Fairpool: GPU pooling and fair-share scheduling.

ARCHITECTURE.md describes the sub-packages; import from the one you need.
This module holds the version and nothing else, so that importing it costs nothing.
"""

__version__ = "0.1.0.dev0"
