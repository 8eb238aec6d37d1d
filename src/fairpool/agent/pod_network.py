"""The network namespace of one pod: its own ports, reached from outside only through its shim.

Made by the shim of a pod that declares ports. In the namespace are a loopback interface and nothing else, so no process
of the machine and no other pod can connect to what listens there, and two pods can listen on one port. The gateway and
the tunnel are passed sockets that were opened in the namespace (`open_sockets`). Connections that begin in the pod are
redirected by the kernel to a relay (`network_relay.py`), which continues them in the machine's network. Nothing can be
left behind on the machine: the namespace ends with the last process in it, the relay with the shim.

A container runtime uses it in three steps: `PodNetwork()`, `network.enter()`, and then starts the container with the
namespace at `network.path` (`podman run --network ns:PATH`). Runs in shims, so it imports next to nothing.
"""

from __future__ import annotations

import os
import signal
import socket
import time

from fairpool.agent import namespaces, netlink, process_attributes
from fairpool.agent.netlink import NETLINK_NETFILTER, NETLINK_ROUTE, Netlink
from fairpool.agent.network_relay import DNS_PORT, Relay, allow_descriptors, close_other_descriptors, has_ipv6
from fairpool.agent.traffic_file import TrafficFile
from fairpool.model.relay_port import RELAY_PORT

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` to know this would be a tenth of every shim's memory
    from typing import NoReturn

ADDRESS, ADDRESS_6 = "10.0.2.100", "fd00:6661:6972::100"
"""The pod's own addresses. Programs do not ask for names where only loopback addresses exist."""
UNPRIVILEGED_ID = 65534
RETRY_S, RETRIES = 0.05, 100
FAMILIES = (socket.AF_INET, socket.AF_INET6)
LOOPBACKS = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


class PodNetwork:
    """A network namespace and its relay, which is started first: it stays in the machine's network."""

    def __init__(self) -> None:
        """Made in the pod directory, where the relay counts what passes."""
        self._has_ipv6 = has_ipv6()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        traffic = TrafficFile()
        parent = os.getpid()
        self.relay = os.fork()
        if self.relay == 0:
            self._ours.close()
            _be_relay(theirs, parent, traffic)
        theirs.close()
        traffic.close()

    @property
    def path(self) -> str:
        """The namespace, while this process lives."""
        return f"/proc/{os.getpid()}/ns/net"

    def enter(self) -> None:
        """Move this process into a namespace of its own, and set it up. Raises OSError."""
        namespaces.enter(namespaces.CLONE_NEWNET)
        self.set_up()

    def set_up(self) -> None:
        """Set up the namespace that this process has entered, and let the relay begin."""
        configure(has_ipv6=self._has_ipv6)
        self.serve()

    def serve(self) -> None:
        """Let the relay begin, in a namespace that was set up before."""
        listeners = [_listening(family, socket.SOCK_STREAM) for family in FAMILIES]
        questions = [_listening(family, socket.SOCK_DGRAM) for family in FAMILIES]
        sockets = [*listeners, *questions]
        socket.send_fds(self._ours, [b"s"], [each.fileno() for each in sockets])
        for each in sockets:
            each.close()
        self._ours.close()


def configure(*, has_ipv6: bool) -> None:
    """Give the namespace of this process its interface, addresses and rules."""
    with Netlink(NETLINK_ROUTE) as route:
        route.enable_loopback()
        route.add_address(socket.AF_INET, ADDRESS)
        route.deliver_everything_here(socket.AF_INET)
        if has_ipv6:
            route.add_address(socket.AF_INET6, ADDRESS_6)
            route.deliver_everything_here(socket.AF_INET6)
    asks = [*netlink.protocol_is(socket.IPPROTO_UDP), *netlink.destination_port_is(DNS_PORT)]
    asks_by_tcp = [*netlink.protocol_is(socket.IPPROTO_TCP), *netlink.destination_port_is(DNS_PORT)]
    own = {socket.AF_INET: (b"\x7f", ADDRESS), socket.AF_INET6: (socket.inet_pton(socket.AF_INET6, "::1"), ADDRESS_6)}
    for family, (loopback, address) in own.items():
        leaves = [
            *netlink.protocol_is(socket.IPPROTO_TCP),
            *netlink.destination_differs(family, loopback),
            *netlink.destination_differs(family, socket.inet_pton(family, address)),
        ]
        with Netlink(NETLINK_NETFILTER) as rules:
            rules.redirect_output(family, [(each, RELAY_PORT) for each in (asks, asks_by_tcp, leaves)])


def open_sockets() -> list[socket.socket]:
    """Sockets in the namespace of this process, of both families; with them others can connect to its ports."""
    return [socket.socket(family, socket.SOCK_STREAM) for family in FAMILIES]


def network_permitted() -> str:
    """Empty if pods can have a network of their own on this system, else why not. Tried in a child."""

    def trial() -> None:
        namespaces.enter(namespaces.CLONE_NEWNET)
        configure(has_ipv6=False)
        for family in FAMILIES:
            _listening(family, socket.SOCK_STREAM).close()

    return namespaces.tried_in_child(trial)


def _listening(family: int, kind: int) -> socket.socket:
    """A socket for the relay. That of a killed relay may be there for a moment."""
    found = socket.socket(family, kind)
    if kind == socket.SOCK_STREAM:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for attempt in range(RETRIES):
        try:
            found.bind((LOOPBACKS[socket.AddressFamily(family)], RELAY_PORT))
            break
        except OSError:
            if attempt == RETRIES - 1:
                found.close()
                raise
            time.sleep(RETRY_S)
    if kind == socket.SOCK_STREAM:
        found.listen(128)
    return found


def _be_relay(to_shim: socket.socket, parent: int, traffic: TrafficFile) -> NoReturn:
    """In the child: wait for the sockets, then copy until the shim ends."""
    try:
        process_attributes.die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.chdir("/")
        close_other_descriptors(to_shim.fileno(), traffic.fd)
        allow_descriptors()
        process_attributes.set_process_name("fp:pod network")
        if os.geteuid() == 0:
            process_attributes.become_user(UNPRIVILEGED_ID, UNPRIVILEGED_ID)
            process_attributes.die_with_parent(parent)  # again: the kernel resets it when a process changes its user
        process_attributes.hide_memory()
        packet, fds, _, _ = socket.recv_fds(to_shim, 16, 4)
        if packet:
            to_shim.close()
            sockets = [socket.socket(fileno=fd) for fd in fds]
            Relay(sockets[:2], sockets[2:], traffic).run()
    finally:
        os._exit(0)
