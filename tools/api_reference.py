"""`python -m tools.api_reference`: writes docs/reference/api.md, the list of all routes, from the routes."""

from __future__ import annotations

from pathlib import Path

from fairpool.control.app import create_app
from fairpool.control.description import openapi_document, reference
from fairpool.control.settings import Settings

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"


def text() -> str:
    """The page as it should be; nothing is started or written for it."""
    return reference(openapi_document(create_app(Settings(data=Path("nowhere")))))


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
