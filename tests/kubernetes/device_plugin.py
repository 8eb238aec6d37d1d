"""A device plugin for GPUs that are not there: `python -m tests.kubernetes.device_plugin NODE COUNT`.

It speaks the kubelet's device plugin API (v1beta1) as NVIDIA's does: it advertises `nvidia.com/gpu`, and a container
gets the IDs of its devices in NVIDIA_VISIBLE_DEVICES. The few messages are encoded here: each field is a string or a
message. A kubelet that has restarted is registered with again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from tests.kubernetes.device_ids import device_ids

RESOURCE = "nvidia.com/gpu"
FOLDER = Path("/var/lib/kubelet/device-plugins")
OWN, KUBELET = FOLDER / "tests-gpu.sock", FOLDER / "kubelet.sock"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"


def plugin(ids: tuple[str, ...]) -> Any:
    """The service `v1beta1.DevicePlugin`."""
    devices = b"".join(field(1, field(1, each) + field(2, "Healthy")) for each in ids)

    def list_and_watch(request: bytes, context: Any) -> Iterator[bytes]:
        yield devices
        while context.is_active():  # the kubelet takes the end of this stream for the end of the devices
            time.sleep(0.5)

    answers = {"ListAndWatch": grpc.unary_stream_rpc_method_handler(list_and_watch)}
    answers["Allocate"] = grpc.unary_unary_rpc_method_handler(lambda request, _: allocated(request))
    for name in ("GetDevicePluginOptions", "GetPreferredAllocation", "PreStartContainer"):
        answers[name] = grpc.unary_unary_rpc_method_handler(lambda request, _: b"")  # there are none
    return grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", answers)


def allocated(request: bytes) -> bytes:
    """AllocateResponse: for each container its environment."""
    answer = b""
    for container in values(request, 1):
        ids = ",".join(each.decode() for each in values(container, 1))
        answer += field(1, field(1, field(1, VISIBLE) + field(2, ids)))
    return answer


def field(number: int, value: str | bytes) -> bytes:
    """A string or message, as protobuf writes it."""
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def values(message: bytes, number: int) -> Iterator[bytes]:
    """Of the strings or messages in this field. All of these messages have no other kind."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        length, at = _read_varint(message, at)
        if key >> 3 == number:
            yield message[at : at + length]
        at += length


def _varint(value: int) -> bytes:
    written = b""
    while value > 0x7F:
        written += bytes([value & 0x7F | 0x80])
        value >>= 7
    return written + bytes([value])


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while message[at] & 0x80:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | message[at] << shift, at + 1


def register() -> None:
    request = field(1, "v1beta1") + field(2, OWN.name) + field(3, RESOURCE)
    with grpc.insecure_channel(f"unix://{KUBELET}") as channel:
        channel.unary_unary("/v1beta1.Registration/Register")(request, timeout=10)


def serve(ids: tuple[str, ...]) -> None:
    """Until it is killed. The kubelet removes all sockets when it starts, so a new one is needed then."""
    while True:
        while not KUBELET.exists():
            time.sleep(0.05)
        seen = KUBELET.stat().st_ino
        OWN.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(8), handlers=[plugin(ids)])
        server.add_insecure_port(f"unix://{OWN}")
        server.start()
        try:
            register()
            while KUBELET.exists() and OWN.exists() and KUBELET.stat().st_ino == seen:
                time.sleep(0.2)
        except (grpc.RpcError, FileNotFoundError):
            time.sleep(0.2)  # it is starting or has just gone
        finally:
            server.stop(None)


if __name__ == "__main__":
    serve(device_ids(sys.argv[1], int(sys.argv[2])))
