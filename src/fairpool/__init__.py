"""Fairpool: GPU pooling and fair-share scheduling.

Each sub-package is one room of the house described in ARCHITECTURE.md; import from the room you need.
This module holds the version and nothing else, so that importing it costs nothing.
"""

__version__ = "0.1.0.dev0"
