"""Values that the database has no room for: too long, too large, or with characters that it cannot store."""

from __future__ import annotations


class Unfit(Exception):
    """A value of a request does not fit into its column. Checks before it should have found it; nothing was saved."""
