"""Python programs that pods of several tests run."""

from __future__ import annotations

UPPERCASE_SERVER = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    data = b""
    while piece := connection.recv(65536):
        data += piece
    connection.sendall(data.upper())
    connection.close()
"""
"""Writes its port, and answers each connection with what it sent, in upper case."""
