"""The process of a server: its event loop, its signals, and start-up errors as problems.

`fairpool up`, `fairpool control` and `fairpool cluster` run in it.
"""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from fairpool.agent.state_directory import UnknownInstallation
from fairpool.cluster.ledger import LeaseHeld, LedgerProblem, LedgerUnavailable
from fairpool.engines.port import EngineUnreachable
from fairpool.model.problem import Problem
from fairpool.platform.data_directory import PlatformError


def run_server(main: Coroutine[Any, Any, None]) -> None:
    """Run a server until it ends. Raises `PlatformError` if it cannot start."""
    try:
        with asyncio.Runner(loop_factory=_event_loop_factory()) as runner:
            runner.run(main)
    except (LedgerProblem, LedgerUnavailable, UnknownInstallation) as error:
        raise PlatformError(error.problem) from error
    except (LeaseHeld, EngineUnreachable) as error:
        what = f"the scheduling loop cannot start: {error}"
        fix = "check whether another Fairpool uses a copy of this data directory"
        raise PlatformError(Problem("up.loop", what, fix)) from error


@contextmanager
def on_signals(shut_down: Callable[[], None]) -> Iterator[None]:
    """Call `shut_down` on SIGINT and SIGTERM."""
    loop = asyncio.get_running_loop()
    wanted = (signal.SIGINT, signal.SIGTERM)
    for each in wanted:
        loop.add_signal_handler(each, shut_down)
    try:
        yield
    finally:
        # From here on nothing takes long, and a signal must not interrupt it.
        for each in wanted:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_IGN)


def keep_what_is_loaded() -> None:
    """Collect garbage from here on, except among all present objects: what was loaded stays for good."""
    gc.collect()
    gc.freeze()
    gc.enable()


def stepped_down(why: str) -> PlatformError:
    """Another scheduling loop has taken over."""
    return PlatformError(Problem("up.stepped_down", why, "run only one Fairpool per data directory"))


def _event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # not available on every system
    except ImportError:
        return None
    return uvloop.new_event_loop
