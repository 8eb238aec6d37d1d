"""What an administrator chooses for the gateway.

Apart from its server, because a command that only starts another process must not load the whole platform.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.api.gateway_address import GatewayAddress
from fairpool.control.settings import is_loopback
from fairpool.model.problem import Problem
from fairpool.platform.address import Address

DEFAULT_PORT = 8088


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """What an administrator chooses for the gateway."""

    listen: Address | None = None
    """None: on this machine only, at the port of the last start if it is free."""
    url: GatewayAddress | None = None
    """None: names below `localhost`."""
    control_url: str = ""
    """Where browsers reach the control plane; empty: derived from its address."""

    def problem(self) -> Problem | None:
        """Why they cannot be used."""
        if self.url is None and self.listen is not None and not is_loopback(self.listen.host):
            what = f"--gateway-listen {self.listen.place} is reached from other machines, but by no host name"
            fix = "add --gateway-url https://tools.example.com, with a DNS record for *.tools.example.com"
            return Problem("gateway.no_url", what, fix)
        return None
