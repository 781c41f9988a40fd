"""What `wiresum bench accuracy` measures: errors of sums by each way, for each kind of tensors and number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from statistics import median

import torch
from wiresum.bench.accuracy.command import Options
from wiresum.bench.accuracy.data import KINDS
from wiresum.bench.accuracy.sums import by_lanes, ring
from wiresum.bench.result import Ratio, Report, Result
from wiresum.plan.aggregation_plan import LANE_BYTES
from wiresum.plan.choices import ELEMENT_BYTES
from wiresum.plan.job import Job

PRODUCT, RIVAL = "16-bit lanes", "bfloat16 ring"
WAYS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    PRODUCT: lambda tensors, payload: by_lanes(tensors, "int16-le", payload),
    "32-bit lanes": lambda tensors, payload: by_lanes(tensors, "int32-le", payload),
    RIVAL: lambda tensors, _: ring(tensors),
    "float32 ring": lambda tensors, _: ring(tensors.float()),
    "rounded once": lambda tensors, _: tensors.double().sum(0).to(torch.bfloat16),
}
"""How tensors of bfloat16 are summed, given the payload of a packet in bytes."""
NOTES = (
    "RMS of the errors over the RMS of the exact sum (float64); medians over seeds",
    "16-bit lanes, 32-bit lanes: Wiresum's own codec with an exponent for each packet, what `--lanes auto` and "
    "`int32-le` send; results are bfloat16",
    "bfloat16 ring: a model of Gloo's ring that is exact to the bit: partial sums are rounded to bfloat16 at each hop",
    "float32 ring: the same over the tensors as float32; its results are float32, and it moves twice the bytes",
    "rounded once: the exact sum in bfloat16, which no result of that type can better",
    "smallest quarter: the positions with the smallest values over all ranks, error and sum of these alone",
)
AIM_RANKS = 32
"""Up to here the aim is an error no larger than the rival's."""


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Sums the tensors of every seed by every way.

    Args:
        options: what to sum.
        progress: takes a line about what is going on.
    """
    payload_bytes = Job(mtu_bytes=options.mtu_bytes).packet_values * LANE_BYTES
    results = [result for kind in options.data for result in _of_kind(kind, options, payload_bytes, progress)]
    parameters = {
        "ranks": list(options.ranks),
        "size_bytes": options.size_bytes,
        "seeds": options.seeds,
        "packet_values": payload_bytes // ELEMENT_BYTES["bfloat16"],
        "aim_over_bfloat16_ring": {"up_to_ranks": AIM_RANKS, "ratio": 1.0},
    }
    return Report("accuracy", parameters, results, list(_ratios(results)), notes=NOTES)


def _of_kind(kind: str, options: Options, payload_bytes: int, progress: Callable[[str], None]) -> Iterator[Result]:
    elements = max(1, options.size_bytes // ELEMENT_BYTES["bfloat16"])
    errors: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for seed in range(options.seeds):
        progress(f"{kind}, seed {seed + 1} of {options.seeds}")
        tensors = KINDS[kind](max(options.ranks), elements, seed)
        for ranks, (way, total) in product(options.ranks, WAYS.items()):
            mine = tensors[:ranks]
            errors.setdefault((ranks, way), []).append(relative_rms(mine, total(mine, payload_bytes)))
    for (ranks, way), found in errors.items():
        whole, smallest = map(list, zip(*found, strict=True))
        extra = {"data": kind, "ranks": ranks, "way": way, "elements": tensors.shape[1], "smallest_quarter": smallest}
        yield Result(f"{kind}, {ranks} ranks: {way}", "of RMS", whole, extra)


def relative_rms(tensors: torch.Tensor, total: torch.Tensor) -> tuple[float, float]:
    """RMS of a sum's errors over that of the exact sum: of all positions, and of the quarter with the smallest values.

    Args:
        tensors: what was summed, one row for each rank.
        total: what came of it, in any type.
    """
    exact = tensors.double().sum(0)
    sizes = tensors.double().square().sum(0)
    smallest = sizes <= sizes.kthvalue(max(1, len(sizes) // 4)).values
    return _over(total.double() - exact, exact), _over((total.double() - exact)[smallest], exact[smallest])


def _over(errors: torch.Tensor, exact: torch.Tensor) -> float:
    """Zero where nothing is wrong, even of zeros."""
    return float(errors.norm() / exact.norm()) if errors.any() else 0.0


def _ratios(results: list[Result]) -> Iterator[Ratio]:
    """The product's error over the rival's, of all positions and of the smallest."""
    found = {(r.extra["data"], r.extra["ranks"], r.extra["way"]): r for r in results}
    for (kind, ranks, way), ours in found.items():
        if way == PRODUCT:
            theirs, name = found[kind, ranks, RIVAL], f"{kind}, {ranks} ranks: {PRODUCT} / {RIVAL}"
            pairs = ((name, ours.runs, theirs.runs), (f"{name}, smallest quarter", _smallest(ours), _smallest(theirs)))
            yield from (Ratio(said, median(own) / median(others)) for said, own, others in pairs if median(others))


def _smallest(result: Result) -> list[float]:
    """Errors at the smallest quarter of positions, by seed."""
    errors: list[float] = result.extra["smallest_quarter"]
    return errors
