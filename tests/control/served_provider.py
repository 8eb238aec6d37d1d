"""A control plane that may use an identity provider on loopback, and the server of such a provider."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from tests.control.control_plane import HERE, ControlPlane, control_plane, expect

TLS = HERE.replace("http:", "https:")
"""The address of the control plane for browsers that reach it through a proxy with TLS."""
PRIVATE_PROVIDERS = "/api/v1/security/settings/security.privateIdentityProviders"


class ProviderHandler(BaseHTTPRequestHandler):
    """Answers requests to a provider, and logs nothing."""

    def answer(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def with_provider(handler: type[ProviderHandler]) -> Iterator[tuple[ControlPlane, str]]:
    """A control plane, and the address where the provider is served."""
    with HTTPServer(("127.0.0.1", 0), handler) as provider, control_plane() as control:
        serving = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            expect(control.call("PUT", PRIVATE_PROVIDERS, {"value": True}), 200)
            yield control, f"http://127.0.0.1:{provider.server_port}"
        finally:
            provider.shutdown()
            serving.join()
