"""One rank of a run of `ps` or `sharded_ps`.

Started with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line. Gloo lines the ranks
up and says what the sums have to be.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from wiresum.bench.baselines.push_pull import PushPull
from wiresum.bench.baselines.task import Task


def main() -> None:
    """Measures, checks the sums, and writes all runs to a file."""
    import torch.distributed as dist

    import torch

    task = Task.told()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    delay_s = task.delays_s[rank] if rank < len(task.delays_s) else 0.0
    inputs = torch.empty(task.elements).uniform_(-1, 1, generator=torch.Generator().manual_seed(rank))
    expected = inputs.clone()
    dist.all_reduce(expected)
    client = PushPull(task.servers)
    runs = []
    for _ in range(task.warmups + task.runs):
        tensor = inputs.clone()
        dist.barrier()
        began = time.monotonic()
        time.sleep(delay_s)
        summed = client.all_reduce(tensor.numpy())
        times = torch.tensor([-began, time.monotonic(), summed], dtype=torch.float64)
        deviation = (tensor - expected).abs().max().double().reshape(1)
        seen = torch.cat([times, deviation])
        dist.all_reduce(seen, op=dist.ReduceOp.MAX)
        start, end, summed, largest = -float(seen[0]), float(seen[1]), float(seen[2]), float(seen[3])
        times_s = {"seconds": end - start, "summed_seconds": summed - start, "began": start}
        runs.append({**times_s, "largest_deviation": largest})
    if rank == 0:
        Path(task.output).write_text(json.dumps(runs[task.warmups :]))
    client.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
