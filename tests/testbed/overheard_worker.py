"""A job whose packets a test overhears: each rank looks for its own values in the frames that it sends.

It runs collectives that the network does not sum, and DDP. Then rank 0 takes the server away as its argument says, and
the ranks sum on. The last line is JSON: how many frames showed a value, and how many sums were wrong.
"""

import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist

import torch
from torch import nn

SUMS, ELEMENTS, SMALL = 12, 40_000, 100
EVERY_PROTOCOL, PACKET_OUTGOING, RECEIVE_BUFFER_FORCE = 3, 4, 33
SETTLE_S = 0.5
LEAVE_S = 3.0
"""Seconds for all ranks to leave a network whose server is silent, which take two."""

marks: set[bytes] = set()
frames: list[bytes] = []


def listen() -> None:
    """Keep every frame that this rank sends."""
    ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL))
    ear.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER_FORCE, 1 << 27)
    ear.bind((os.environ["GLOO_SOCKET_IFNAME"], 0))
    while True:
        frame, (_, _, kind, _, _) = ear.recvfrom(1 << 17)
        if kind == PACKET_OUTGOING:
            frames.append(frame)


def known(length: int, value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of one value, which is looked for in frames, and so are its multiples."""
    for times in range(1, dist.get_world_size() + 1):
        marks.add(bytes(torch.full((4,), times * value).to(dtype).view(torch.uint8).tolist()))
    return torch.full((length,), value).to(dtype)


def collectives() -> None:
    """Those that the network does not sum, and DDP with buffers."""
    ranks, whole = dist.get_world_size(), dist.group.WORLD
    spoilt = known(ELEMENTS, 1.0625)
    spoilt[5] = float("nan")
    for tensor in (
        known(ELEMENTS, 70_007, torch.int32),
        known(ELEMENTS, 80_009, torch.int64),
        known(ELEMENTS, 1.0078125, torch.float64),
        known(SMALL, 1.015625),
        spoilt,
    ):
        dist.all_reduce(tensor)
    dist.all_reduce(known(ELEMENTS, 1.03125), dist.ReduceOp.MAX)
    dist.all_gather_into_tensor(torch.empty(ranks * ELEMENTS), known(ELEMENTS, 1.046875))
    dist.broadcast(known(ELEMENTS, 1.078125), 0)
    dist.all_to_all_single(torch.empty(ranks * ELEMENTS), known(ranks * ELEMENTS, 1.09375))
    dist.all_gather_object([None] * ranks, "a word that nobody else may read " * 4, group=whole)
    marks.add(b"a word that nobody else may read")
    two = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        dist.all_reduce(known(ELEMENTS, 1.109375), group=two)
    model = nn.Linear(200, 200, bias=False)
    nn.init.constant_(model.weight, 1.9375)
    model.register_buffer("mean", known(200, 1.8125))
    known(1, 1.9375), known(1, 2.28125)
    wrapped = nn.parallel.DistributedDataParallel(model)
    for _ in range(2):
        wrapped(torch.full((1, 200), 2.28125)).sum().backward()


def server() -> int:
    """The process that sums this job, by the plan in its command line."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes()
        except OSError:
            continue
        if b"wiresum-node" in line and os.environ["WIRESUM_PLAN"].encode() in line:
            return int(file.parent.name)
    raise SystemExit("no server found")


def cut_off() -> None:
    """Have this rank reach the server no more."""
    plan = json.loads(Path(os.environ["WIRESUM_PLAN"]).read_text())
    address = plan["nodes"][0]["address"].rsplit(":", 1)[0]
    subprocess.run(["ip", "route", "add", "blackhole", f"{address}/32"], check=True)


LOSSES: dict[str, Callable[[], None]] = {
    "stopped": lambda: None if dist.get_rank() else os.kill(server(), signal.SIGSTOP),
    "killed": lambda: None if dist.get_rank() else os.kill(server(), signal.SIGKILL),
    "cut off": cut_off,
}


def main() -> None:
    """Run the job."""
    torch.set_num_threads(1)
    threading.Thread(target=listen, daemon=True).start()
    dist.init_process_group("wiresum", timeout=datetime.timedelta(seconds=60))
    ranks, value, wrong = dist.get_world_size(), 1.2345678, 0
    collectives()
    for number in range(SUMS):
        if number == SUMS // 2:
            dist.barrier()
            LOSSES[sys.argv[1]]()
            time.sleep(LEAVE_S)
        gradient = known(ELEMENTS, value)
        dist.all_reduce(gradient)
        wrong += not torch.allclose(gradient, torch.full((ELEMENTS,), value * ranks), rtol=1e-6)
    time.sleep(SETTLE_S)
    shown = [mark.hex() for mark in marks if any(mark in frame for frame in frames)]
    print(json.dumps({"shown": shown, "frames": len(frames), "wrong": wrong}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
