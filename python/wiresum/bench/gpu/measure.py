"""The codec's Triton kernels beside a copy that moves the same number of bytes, then all-reduces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from wiresum.bench.result import Ratio, Report, Result
from wiresum.errors import SupportError

if TYPE_CHECKING:
    import torch
    from wiresum.gpu import LaneFormat

AIM = 0.8
"""Share of a copy's bandwidth that a kernel should reach."""
WORKERS = 4
"""Number of ranks for whose sums the lanes have room."""
FRAGMENT = 256
ROTATED_BYTES = 512_000_000
"""Tensors are used in turn, and take more than a GPU's cache together, as a cache would flatter."""
WARMUPS = 3

Step = Callable[[int], object]


def measure(size_bytes: int, workers: int, runs: int) -> Report:
    """Exponents, lanes and values of tensors in a GPU's memory.

    Args:
        size_bytes: of a tensor.
        workers: ranks of the all-reduces; 0 for none.
        runs: of each kernel, and of each all-reduce.

    Raises:
        SupportError: there is no GPU that PyTorch can use.
        TestbedError: a rank failed, or has a wrong sum.
    """
    import torch
    from wiresum.bench.gpu import all_reduce

    if not torch.cuda.is_available():
        raise SupportError("PyTorch finds no CUDA device: install a GPU, its driver and PyTorch with CUDA")
    results = [Result(name, "GB/s", rates(step, moved, size_bytes, runs)) for name, moved, step in cases(size_bytes)]
    host = Result("host, float32: exponents, encode and decode", "s", host_seconds(size_bytes, runs))
    sums, ratios = all_reduce.measure(workers, runs) if workers else ([], [])
    parameters = {
        "size_bytes": size_bytes,
        "workers": workers,
        "runs": runs,
        "fragment": FRAGMENT,
        "aim_over_copy": AIM,
    }
    notes = [f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; bytes read and bytes written both count"]
    return Report("gpu", parameters, [*results, host, *sums], [*over_copy(results), *ratios], notes=notes)


def over_copy(results: list[Result]) -> list[Ratio]:
    """Every kernel's bytes per second over those of the faster copy."""
    copies = [result.median for result in results if result.name.startswith("copy")]
    return [Ratio(f"{r.name} / copy", r.median / max(copies)) for r in results if not r.name.startswith("copy")]


def cases(size_bytes: int) -> Iterator[tuple[str, int, Step]]:
    """Names, bytes that a call moves, and calls, each on the tensor of a turn."""
    import torch
    from wiresum.gpu import LaneFormat

    turns = 1 + ROTATED_BYTES // size_bytes
    source = torch.randn(turns, size_bytes // 4, device="cuda")
    target = torch.empty_like(source)
    yield "copy by the driver", 2 * size_bytes, lambda turn: target[turn % turns].copy_(source[turn % turns])
    yield "copy by a kernel", 2 * size_bytes, lambda turn: torch.add(source[turn % turns], 0, out=target[turn % turns])
    for element, lane_bits in ((torch.float32, 32), (torch.bfloat16, 16), (torch.float16, 16), (torch.bfloat16, 32)):
        values = torch.randn(turns, size_bytes // element.itemsize, device="cuda", dtype=element)
        yield from kernels(values, LaneFormat(WORKERS, lane_bits))


def kernels(values: torch.Tensor, form: LaneFormat) -> Iterator[tuple[str, int, Step]]:
    """The three loops on one type of elements and one of lanes."""
    import torch
    from wiresum import gpu

    turns = len(values)
    agreed = [gpu.exponents(row, FRAGMENT, form).to(torch.int8) for row in values]
    lanes = [gpu.encode(row, exponents, FRAGMENT, form)[0] for row, exponents in zip(values, agreed, strict=True)]
    read, coded = values[0].nbytes, lanes[0].nbytes
    element = str(values.dtype).removeprefix("torch.")
    title = f"{element}, int{form.lane_bits}"

    def encode(turn: int) -> None:
        gpu.encode(values[turn % turns], agreed[turn % turns], FRAGMENT, form)

    def decode(turn: int) -> None:
        gpu.decode(lanes[turn % turns], agreed[turn % turns], values[turn % turns], form)

    yield f"exponents {element}", read, lambda turn: gpu.exponents(values[turn % turns], FRAGMENT, form)
    yield f"encode {title}", read + coded, encode
    yield f"decode {title}", read + coded, decode


def rates(step: Step, moved: int, size_bytes: int, runs: int) -> list[float]:
    """GB/s of each run, by the GPU's own clock; a run goes through all tensors once, as one graph of launches."""
    import torch

    turns = 1 + ROTATED_BYTES // size_bytes
    for turn in range(WARMUPS):
        step(turn)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for turn in range(turns):
            step(turn)
    found = []
    for _ in range(runs + 1):
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begun.record()
        graph.replay()
        ended.record()
        torch.cuda.synchronize()
        found.append(turns * moved / begun.elapsed_time(ended) / 1e6)
    return sorted(found[1:])


def host_seconds(size_bytes: int, runs: int) -> list[float]:
    """What the exponents, lanes and values of a tensor hold the host: launches alone, as nothing is waited for."""
    import torch
    from wiresum import gpu

    values, form = torch.randn(size_bytes // 4, device="cuda"), gpu.LaneFormat(WORKERS)
    found = []
    for _ in range(WARMUPS + runs):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        agreed = gpu.exponents(values, FRAGMENT, form)
        lanes, _ = gpu.encode(values, agreed, FRAGMENT, form)
        gpu.decode(lanes, agreed, values, form)
        found.append(time.perf_counter() - begun)
    return sorted(found[WARMUPS:])
