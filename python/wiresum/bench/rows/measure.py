"""Hot rows in the kernel's test-run, and tables at a server beside PyTorch's, on one core."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from time import thread_time
from typing import Any

from wiresum import _native
from wiresum.bench.native import to_result
from wiresum.bench.result import Ratio, Report, Result
from wiresum.errors import SupportError

INT_AIM_NS = 20
"""A row of 16 int32 values by position in the kernel, 36 rows a packet."""
FLOAT_AIM_NS = 60
"""The same of float32 values."""
APPLY_AIM = 2e6
"""Rows a second that one core of a server changes."""
LOOK_UP_AIM = 4e6
"""Rows a second that one core of a server looks up."""
PACK_AIM = 10e6
"""Pairs a second that one core deals to packets."""
DIM = 16
"""Values of a row."""
PUSHED = 100_000
"""Rows of a step in PyTorch; as in the native module."""
ROUNDS = 4
"""Steps of a run."""


def measure(runs: int, table_rows: int) -> Report:
    """Rows in the kernel and in user space, at a server and in PyTorch.

    Args:
        runs: of each case.
        table_rows: rows of the table.
    """
    rows, notes = _native.bench_packaging(runs) + _native.bench_tables(runs, table_rows), []
    try:
        rows = _native.bench_rows(runs) + rows
    except SupportError as missing:
        notes.append(f"the kernel was not measured: {missing}")
    results = [to_result(row) for row in rows] + torch_results(runs, table_rows)
    aims = {"int32_ns": INT_AIM_NS, "float32_ns": FLOAT_AIM_NS, "apply": APPLY_AIM, "look_up": LOOK_UP_AIM}
    aims["pack"] = PACK_AIM
    parameters = {"runs": runs, "table_rows": table_rows, "aims": aims}
    notes.append("`feed` is the making of packets, a part of the figures for `xdp`")
    notes.append("PyTorch changes rows in ascending order, as its gradients are coalesced before; a server in none")
    return Report("rows", parameters, results, ratios(results), notes=notes)


def ratios(results: Iterable[Result]) -> list[Ratio]:
    """User space over the kernel for equal rows, and a server's rates over PyTorch's."""
    everything = list(results)
    shape = ("lanes", "spacing", "rows_of_a_round")
    xdp = {tuple(r.extra[name] for name in shape): r for r in everything if r.extra.get("engine") == "xdp"}
    ours = [r for r in everything if r.extra.get("engine") == "user space"]
    found = [(r, xdp[tuple(r.extra[name] for name in shape)]) for r in ours]
    rivals = {r.extra["step"]: r for r in everything if r.extra.get("ids") == "torch"}
    servers = [r for r in everything if r.extra.get("ids") in {"range", "hashed"}]
    found += [(r, rivals[r.extra["step"]]) for r in servers if r.extra["step"] in rivals]
    return [Ratio(f"{one.name} / {other.name}", one.median / other.median) for one, other in found]


def torch_results(runs: int, table_rows: int) -> list[Result]:
    """PyTorch's sparse Adagrad, and its look-ups, on one thread: rows a second."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return measure_torch(runs, table_rows)
    finally:
        torch.set_num_threads(threads)


def measure_torch(runs: int, table_rows: int) -> list[Result]:
    """The two steps of a table in PyTorch that a server has too."""
    import torch

    generator = torch.Generator().manual_seed(1)
    weight = torch.nn.Parameter(torch.zeros(table_rows, DIM))
    optimizer = torch.optim.Adagrad([weight], lr=0.01)
    # PyTorch warns unless one says whether it is to check indices; a server's rows are checked where they arrive.
    torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
    rates: dict[str, list[float]] = {"apply": [], "look up": []}
    for _ in range(runs):
        seconds = dict.fromkeys(rates, 0.0)
        pushed = 0
        for _ in range(ROUNDS):
            drawn = torch.randint(table_rows, (PUSHED,), generator=generator)
            keys = torch.tensor(list(dict.fromkeys(drawn.tolist())))
            values = torch.rand(len(keys), DIM, generator=generator)
            weight.grad = torch.sparse_coo_tensor(keys[None], values, weight.shape).coalesce()
            pushed += len(keys)
            seconds["apply"] += timed(optimizer.step)
            seconds["look up"] += timed(partial(torch.nn.functional.embedding, keys, weight.detach()))
        for step, taken in seconds.items():
            rates[step].append(pushed / taken)
    extra = {"ids": "torch", "rows": table_rows}
    return [Result(f"PyTorch, {step}", "rows/s", rate, {**extra, "step": step}) for step, rate in rates.items()]


def timed(work: Callable[[], Any]) -> float:
    """Seconds that this thread was on a core."""
    begun = thread_time()
    work()
    return thread_time() - begun
