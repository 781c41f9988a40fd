"""The process of a server: `python -m wiresum.bench.baselines.serve ADDRESS WORKERS` prints `ready ADDRESS:PORT`."""

import socket
import sys

from wiresum.bench.baselines.server import Server


def main() -> None:
    """Serves one job."""
    address, workers = sys.argv[1], int(sys.argv[2])
    with socket.create_server((address, 0), backlog=workers) as listener:
        print(f"ready {address}:{listener.getsockname()[1]}", flush=True)
        Server(listener, workers).serve()


if __name__ == "__main__":
    main()
