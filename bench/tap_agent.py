"""An agent that the bench speaks for: it hands its stdin and stdout over, and waits (`tap_pipes.py`).

So one process holds both ends of a proxy, and knows when something went in and came out by one clock.
"""

from __future__ import annotations

import socket
import sys


def main() -> None:
    """Send both descriptors to who listens at the path that is given, and stay until they let go."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(sys.argv[1])
        socket.send_fds(line, [b"."], [0, 1])
        line.recv(1)


if __name__ == "__main__":
    main()
