"""A web tool that runs in a pod: a page, the headers it received, and a WebSocket that returns bytes."""

import base64
import hashlib
import socketserver
import sys
from typing import ClassVar


class Tool(socketserver.BaseRequestHandler):
    requests: ClassVar[list[bytes]] = []

    def handle(self) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = self.request.recv(65536)
            if not piece:
                return
            data += piece
        if not data.startswith(b"GET /seen"):
            self.requests.append(data.partition(b"\r\n")[0])
        if b"upgrade: websocket" in data.lower():
            key = next(
                line.split(b": ")[1] for line in data.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")
            )
            accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            self.request.sendall(head + b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
            while piece := self.request.recv(65536):
                self.request.sendall(piece)
            return
        body = data if data.startswith(b"GET /headers") else b"served by the pod"
        body = b"\n".join(self.requests) if data.startswith(b"GET /seen") else body
        self.request.sendall(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        )


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Tool).serve_forever()
