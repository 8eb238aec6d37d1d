"""Tests that are coroutines: each runs in an event loop of its own, for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

P = ParamSpec("P")
Test = Callable[P, Coroutine[Any, Any, None]]


def within(limit_s: float) -> Callable[[Test[P]], Callable[P, None]]:
    """Run the test; it fails if it takes longer."""

    def decorated(test: Test[P]) -> Callable[P, None]:
        @wraps(test)
        def run(*given: P.args, **named: P.kwargs) -> None:
            async def limited() -> None:
                async with asyncio.timeout(limit_s):
                    await test(*given, **named)

            asyncio.run(limited())

        return run

    return decorated
