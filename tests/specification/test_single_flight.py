"""Work that many tasks ask for at the same time is done once; if it fails, another of them does it."""

from __future__ import annotations

import asyncio

import pytest

from fairpool.control.single_flight import SingleFlight


def test_one_does_it_and_all_wait_for_it() -> None:
    async def play() -> None:
        flight, begun = SingleFlight(), 0

        async def work() -> None:
            nonlocal begun
            begun += 1
            await asyncio.sleep(0)

        await asyncio.gather(*(flight.join(work) for _ in range(50)))
        assert begun == 1
        await flight.join(work)
        assert begun == 2, "what is asked for later is done again"

    asyncio.run(play())


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
def test_the_others_do_not_wait_for_ever(how: str) -> None:
    async def play() -> None:
        flight, may_go, done = SingleFlight(), asyncio.Event(), False

        async def breaks() -> None:
            await may_go.wait()
            raise ConnectionError

        async def works() -> None:
            nonlocal done
            done = True

        first = asyncio.ensure_future(flight.join(breaks))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(flight.join(works))
        await asyncio.sleep(0)
        if how == "fails":
            may_go.set()
        else:
            first.cancel()
        with pytest.raises((ConnectionError, asyncio.CancelledError)):
            await first
        await second
        assert not done
        await flight.join(works)
        assert done

    asyncio.run(play())
