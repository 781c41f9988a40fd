"""`wiresum bench security --proven`: what proofs of values cost the XDP program, and what other codes would.

Method. In the kernel's test-run, with four children and one slot; steps take turns on one core. The making of packets,
and the test-run itself, are steps of their own; here they are subtracted from the least of the runs, as what else runs
on the machine only adds.
"""

from __future__ import annotations

from collections.abc import Callable

from wiresum import _native, wire
from wiresum.bench.native import to_result
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.security.command import Options

VALUES = (64, 128, 256, 352, 512, wire.PAGE_VALUES)
"""Values in a packet, from few to the most."""
CODE, CIPHER = "NH and SipHash-2-4", "AES by bpf_crypto_encrypt"
WITHOUT = {
    "open": "open, made alone",
    "proven": "proven, made alone",
    CODE: "empty",
    "SipHash-2-4": "empty",
    "SipHash-1-3": "empty",
    CIPHER: "empty",
}
"""Steps, each with the step that is a part of its runs and none of its cost."""
COMPARED = (("proven", "open"), *((step, CODE) for step in ("SipHash-2-4", "SipHash-1-3", CIPHER)))
"""A step, and the one that its cost is set beside; kernels without a cipher of their own have no such step."""


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Measures packets with and without proofs, and codes over one packet.

    Args:
        options: what to measure; its runs count.
        progress: takes a line about what is going on.

    Raises:
        SupportError: no XDP.
    """
    progress("packets with proofs and without, in the kernel's test-run")
    results = [to_result(row) for row in _native.bench_proofs(list(VALUES), options.runs)]
    return Report("security-proven", {"runs": options.runs, "values": list(VALUES)}, results, ratios(results))


def ratios(results: list[Result]) -> list[Ratio]:
    """The cost of one step over that of another, for each number of values."""
    least = {(result.extra["step"], result.extra["values"]): min(result.runs) for result in results}
    return [
        Ratio(f"{step} / {other}, {values} values", _cost(least, step, values) / _cost(least, other, values))
        for step, other in COMPARED
        for values in sorted({values for name, values in least if name == step})
    ]


def _cost(least: dict[tuple[str, int], float], step: str, values: int) -> float:
    """Nanoseconds of a step itself."""
    return least[step, values] - least[WITHOUT[step], values]
