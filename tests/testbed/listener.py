"""Listens at a host of a testbed: writes every frame that its interfaces see to a file, until it is ended."""

import socket
import sys

EVERY_PROTOCOL = 3
"""ETH_P_ALL of <linux/if_ether.h>."""
LONGEST = 1 << 16
BUFFER_BYTES = 64 << 20
"""Frames of one short job wait here rather than get lost."""
SO_RCVBUFFORCE = 33


def main() -> None:
    """Listens."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL)) as ear,
        open(sys.argv[1], "wb", buffering=0) as file,
    ):
        ear.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        print("ready", flush=True)
        while True:
            file.write(ear.recv(LONGEST))


if __name__ == "__main__":
    main()
