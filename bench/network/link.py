"""The link between the namespaces, as a process: delay and loss on every packet, and addresses that swallow all.

Kernels of containers often have no netem, so packets cross here: each namespace has one end, a tun device. Who is sent
what is decided by the address: `11.1.*` are the good servers', `11.3.*` to `11.5.*` the faulty ones', whatever else
vanishes. It ends when its standard input does, and says how many packets crossed and how late the latest was.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import os
import random
import select
import struct
import subprocess
import time
from collections import deque

END = "net0"  # what every namespace calls its end
_SET_INTERFACE = 0x400454CA  # TUNSETIFF
_TUN, _BARE_PACKETS = 0x0001, 0x1000  # IFF_TUN, IFF_NO_PI
_PACKET_BYTES_MAX = 2048
_AT_ONCE = 64  # packets read from one end before the other has its turn
_QUEUE = 20_000  # packets an end holds until they are read here


def open_end(namespace: str) -> int:
    """A tun device whose other side is in the namespace."""
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    wanted = struct.pack("16sH22x", b"amble%d", _TUN | _BARE_PACKETS)
    name = fcntl.ioctl(end, _SET_INTERFACE, wanted)[:16].rstrip(b"\0").decode()
    subprocess.run(["ip", "link", "set", name, "txqueuelen", str(_QUEUE), "netns", namespace, "name", END], check=True)
    return end


class Link:
    """Holds packets for as long as they are on their way."""

    def __init__(self, crawler: int, good: int, faulty: int, delay_s: float, loss: float, seed: int) -> None:
        self._crawler = crawler
        self._servers = {1: good, 3: faulty, 4: faulty, 5: faulty}
        self._delay_s, self._loss = delay_s, loss
        self._chance = random.Random(seed).random
        self._under_way: deque[tuple[float, int, bytes]] = deque()
        self.crossed, self.late_s = 0, 0.0

    def run(self) -> None:
        poll = select.epoll()
        ends = {self._crawler, *self._servers.values()}
        for descriptor in (*ends, 0):
            poll.register(descriptor, select.EPOLLIN)
        while True:
            wait_s = self._under_way[0][0] - time.monotonic() if self._under_way else -1.0
            ready = poll.poll(max(0.0, wait_s) if self._under_way else -1)
            for end, _ in ready:
                if end == 0:
                    return
                self._take(end)
            self._deliver()

    def _take(self, end: int) -> None:
        due = time.monotonic() + self._delay_s
        for _ in range(_AT_ONCE):
            try:
                packet = os.read(end, _PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            # Packets of IPv6 come from the crawler alone, and nobody is at their address.
            to = (
                self._crawler
                if end != self._crawler
                else self._servers.get(packet[17])
                if packet[0] >> 4 == 4
                else None
            )
            if to is not None and (not self._loss or self._chance() >= self._loss):
                self._under_way.append((due, to, packet))

    def _deliver(self) -> None:
        while self._under_way and self._under_way[0][0] <= (now := time.monotonic()):
            due, end, packet = self._under_way.popleft()
            self.late_s = max(self.late_s, now - due)
            try:
                os.write(end, packet)
                self.crossed += 1
            except OSError as error:  # a full queue loses packets, as anywhere
                if error.errno not in (errno.ENOBUFS, errno.EAGAIN, errno.EIO, errno.EINVAL):
                    raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("namespaces", nargs=3, help="of the crawler, the good servers and the faulty ones")
    parser.add_argument("--delay-ms", type=float, required=True, help="each way")
    parser.add_argument("--loss", type=float, required=True, help="share of packets, each way")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    crawler, good, faulty = map(open_end, arguments.namespaces)
    os.nice(-15)  # the delay is to be the network's, not the scheduler's
    link = Link(crawler, good, faulty, arguments.delay_ms / 1000, arguments.loss, arguments.seed)
    print("ready", flush=True)
    link.run()
    print(f"{link.crossed} {link.late_s}")


if __name__ == "__main__":
    main()
