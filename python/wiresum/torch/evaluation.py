"""Measures one round of each worker, for planners that put similar workers together (XAgg §V)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch.distributed as dist

import torch
from wiresum.plan.evaluation import Evaluation, WorkerEvaluation

CHUNK_ELEMENTS = 1 << 20
"""float32 elements of one message: 4 MB keep a link busy and let the receiver hold little of each sender."""
FEWEST_RANKS = 2


def evaluate_workers(
    step: Callable[[], object],
    gradient_bytes: int,
    path: Path | str | None = None,
    name: str | None = None,
) -> Evaluation:
    """Measures a round on every rank of the default group, which all call this together.

    First each rank runs `step` on its own: t₁. Then all send a gradient to one rank at the same time, as to a parameter
    server: t₂ is until it has a rank's gradient. As the server sends nothing to itself, a second rank takes its turn.

    Args:
        step: one local round up to the gradient, without communication: of DDP under `no_sync()`, with
            `torch.cuda.synchronize()` at the end on a GPU.
        gradient_bytes: float32 bytes of the model's gradient.
        path: where rank 0 writes the evaluation; nowhere if absent.
        name: of this rank's worker in the topology; the host's name if absent.

    Returns:
        The rounds of all ranks, in rank order; the same on every rank.

    Raises:
        PlanError: two ranks have the same name.

    Example:
        evaluation = evaluate_workers(lambda: loss(model(batch)).backward(), 97_000_000, "evaluation.json")
    """
    dist.barrier()
    begin = time.perf_counter()
    step()
    compute = time.perf_counter() - begin
    communication = _communication_seconds(gradient_bytes // 4)
    own = (name or socket.gethostname(), compute, communication)
    rounds: list[tuple[str, float, float]] = [own] * dist.get_world_size()
    dist.all_gather_object(rounds, own)
    evaluation = Evaluation.build(
        workers=[
            WorkerEvaluation(name=worker, compute_seconds=computing, communication_seconds=communicating)
            for worker, computing, communicating in rounds
        ]
    )
    if path is not None and dist.get_rank() == 0:
        evaluation.write(path)
    return evaluation


def _communication_seconds(elements: int) -> float:
    """Seconds until a parameter server has this rank's gradient, while all others send theirs."""
    if dist.get_world_size() < FEWEST_RANKS:
        return 0.0
    to_first, to_second = _send_to(0, elements), _send_to(1, elements)
    return to_second if dist.get_rank() == 0 else to_first


def _send_to(server: int, elements: int) -> float:
    ranks = [rank for rank in range(dist.get_world_size()) if rank != server]
    dist.barrier()
    begin = time.perf_counter()
    if dist.get_rank() == server:
        with ThreadPoolExecutor(len(ranks)) as receivers:
            list(receivers.map(lambda rank: _receive(rank, elements), ranks))
    else:
        _send(server, elements)
    return time.perf_counter() - begin


def _send(server: int, elements: int) -> None:
    chunk = torch.zeros(CHUNK_ELEMENTS)
    for first in range(0, elements, CHUNK_ELEMENTS):
        dist.send(chunk[: elements - first], server)
    dist.recv(torch.zeros(1), server)  # that it has arrived, not only left


def _receive(rank: int, elements: int) -> None:
    chunk = torch.empty(CHUNK_ELEMENTS)
    for first in range(0, elements, CHUNK_ELEMENTS):
        dist.recv(chunk[: elements - first], rank)
    dist.send(torch.zeros(1), rank)
