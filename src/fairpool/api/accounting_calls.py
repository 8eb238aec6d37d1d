"""Calls of the client about usage and prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from fairpool.api.calls import Calls
from fairpool.api.limits import PAGE_MAX, PRICES, USAGE

if TYPE_CHECKING:
    from fairpool.api import accounting

    Json = Mapping[str, Any]


class AccountingCalls(Calls):
    """What was used, and what it costs."""

    def usage(self, **query: str) -> accounting.UsageAnswer:
        """Usage with all its rows; `query` as the API takes it: start, end, groupBy, interval, filterBy."""
        answer = self._get(USAGE, {**query, "limit": PAGE_MAX})
        page = answer
        # All pages of one period: without an end, it would grow from page to page.
        following = {**query, "start": answer.start, "end": answer.end, "limit": PAGE_MAX}
        while page.next is not None:
            page = self._get(USAGE, {**following, "offset": page.next})
            answer.rows.extend(page.rows)
        found: accounting.UsageAnswer = answer
        return found

    def usage_file(self, form: str = "csv", **query: str) -> AbstractContextManager[Iterator[bytes]]:
        """The same as CSV or a page (`html`), piece by piece."""
        return self._stream("GET", USAGE, params={**query, "format": form})

    def prices(self) -> list[accounting.Price]:
        return self._get(PRICES).prices

    def set_price(self, body: accounting.PriceRequest | Json) -> accounting.Price:
        return self._post(PRICES, body)

    def delete_price(self, price_id: str) -> None:
        self._call("DELETE", f"{PRICES}/{price_id}")
