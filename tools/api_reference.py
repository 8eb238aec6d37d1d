"""`python -m tools.api_reference`: writes docs/reference/api.md, the list of all routes, from the routes."""

from __future__ import annotations

from pathlib import Path

from fairpool.control.app import ROUTES
from fairpool.control.description import reference
from fairpool.control.openapi import openapi_document

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"


def text() -> str:
    """The page as it should be."""
    return reference(openapi_document(ROUTES))


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
