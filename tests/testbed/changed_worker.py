"""A job with somebody between rank 0 and the switch, who drops its datagrams and changes its TCP from a point on.

With the argument `values` floats of TCP are replaced that it knows, with `bytes` a byte in the middle of each long
frame. Each rank prints JSON: how many sums it got, how many of them were wrong, and its error.
"""

import datetime
import json
import os
import re
import select
import socket
import struct
import subprocess
import sys
import time

SUMS, BEFORE, ELEMENTS, VALUE = 16, 4, 40_000, 1.2345678
HEADER = 10
"""Bytes of `struct virtio_net_hdr`, so that frames keep what offloads still have to do."""
LONG = 1000
"""Bytes of a frame with values: headers of Gloo are shorter."""
SOL_PACKET, VNET_HEADER, IGNORE_OUTGOING, RECEIVE_BUFFER_FORCE = 263, 15, 23, 33
UDP, TCP = 17, 6


def run(line: str) -> str:
    return subprocess.run(line.split(), check=True, capture_output=True, text=True).stdout


def end_of(interface: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(SOL_PACKET, VNET_HEADER, 1)
    end.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER_FORCE, 1 << 26)
    end.bind((interface, 3))
    return end


def insert() -> list[socket.socket]:
    """Two ends, between which the link of the first port is cut."""
    port, bridge = re.search(r"\d+: (\w+)@\w+:.*?master (\w+)", run("ip -o link show type veth")).groups()
    own = re.search(r"link/ether (\S+)", run(f"ip -o link show {bridge}")).group(1)
    run(f"ip link set {bridge} address {own}")  # else it would take another one with its ports
    run("ip link add between type veth peer name inner")
    for line in (f"{port} nomaster promisc on", f"inner master {bridge} up", "between up promisc on"):
        run(f"ip link set {line}")
    for name in ("between", "inner"):
        run(f"ip link set {name} mtu 3200")
    return [end_of(port), end_of("between")]


def changed(frame: bytes, what: str) -> bytes:
    """The kernel fills checksums of TCP in later. On a wire the relay would do it."""
    if what == "values":
        return frame.replace(struct.pack("<f", VALUE), struct.pack("<f", 100.0))
    middle = len(frame) // 2
    return frame[:middle] + bytes([frame[middle] ^ 1]) + frame[middle + 1 :] if len(frame) > LONG else frame


def relay(what: str) -> None:
    """Runs in the namespace of the switch, until its input ends."""
    ends = insert()
    other, attacks = dict(zip(ends, reversed(ends), strict=True)), False
    print("ready", flush=True)
    while True:
        for ready in select.select([*ends, sys.stdin], [], [])[0]:
            if ready is sys.stdin:
                if not os.read(0, 100):
                    return
                attacks = True
                continue
            frame = ready.recv(1 << 17)
            protocol = frame[HEADER + 23] if frame[HEADER + 12 : HEADER + 14] == b"\x08\0" else 0
            if attacks and protocol == UDP:
                continue
            other[ready].send(changed(frame, what) if attacks and protocol == TCP else frame)


def main(what: str) -> None:
    """Run the job."""
    import torch.distributed as dist
    from overheard_worker import server

    import torch

    between = None
    if os.environ["RANK"] == "0":
        line = ["nsenter", "-t", str(server()), "-n", sys.executable, __file__, "relay", what]
        between = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert between.stdout.readline() == "ready\n"
    torch.set_num_threads(1)
    dist.init_process_group("wiresum", timeout=datetime.timedelta(seconds=20))
    wrong, error = [], ""
    for number in range(SUMS):
        if number == BEFORE:
            time.sleep(0.5)
            if between:
                print("attack", file=between.stdin)
            time.sleep(0.5)
        gradient = torch.full((ELEMENTS,), VALUE)
        try:
            dist.all_reduce(gradient)
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
            break
        wrong.append(bool(((gradient - VALUE * dist.get_world_size()).abs() > 1e-4).any()))
    print(json.dumps({"sums": len(wrong), "wrong": sum(wrong), "error": error}), flush=True)
    time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    relay(sys.argv[2]) if sys.argv[1] == "relay" else main(sys.argv[1])
