"""`wiresum bench deploy`: from the start of a daemon to ready to sum.

Method. On a server of two ports the daemon is started without jobs and serves a plan; the time is from the start of
the process to its ready line (loaded, verified, attached, listening) and from the request to the answer. *Compiled*
compiles the XDP program with clang first, if the sources are there. (XAgg §VI: 0.34 s precompiled, 0.68 s compiled
where it is deployed.)
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import wiresum
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.service_bed import ServiceBed
from wiresum.errors import SupportError

PAPER_S = {"xdp, precompiled": 0.34, "xdp, compiled": 0.68}
"""XAgg's own figures, on its machines."""
SOURCE = Path(wiresum.__file__).parents[2] / "bpf" / "aggregator.bpf.c"
CLANGS = ("clang-19", "clang")
COMPILE_S = 60.0


def measure(runs: int, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Deploys again and again.

    Args:
        runs: of each case.
        progress: takes a line about what is going on.

    Raises:
        SupportError: no namespaces, or no XDP.
    """
    times: dict[str, list[float]] = {"xdp, precompiled": [], "xdp, compiled": [], "udp": [], "one more job": []}
    notes = []
    with ServiceBed(2, None, xdp=True) as bed:
        for run in range(runs):
            progress(f"run {run + 1} of {runs}")
            ready = bed.start("xdp")
            times["xdp, precompiled"].append(ready)
            started = time.perf_counter()
            bed.serve(bed.job(1, 0, 2, "xdp"))
            times["one more job"].append(time.perf_counter() - started)
            bed.stop()
            times["udp"].append(bed.start("udp"))
            bed.stop()
            try:
                compiling = compile_program()
            except SupportError as missing:
                notes = [f"not compiled: {missing}"]
            else:
                times["xdp, compiled"].append(compiling + ready)
    results = [Result(name, "s", measured) for name, measured in times.items() if measured]
    return Report("deploy", {"runs": runs}, results, ratios(results), notes=notes)


def compile_program() -> float:
    """Seconds that clang takes for the XDP program.

    Raises:
        SupportError: no clang, or no sources.
    """
    clang = next(filter(None, map(shutil.which, CLANGS)), None)
    if clang is None or not SOURCE.exists():
        raise SupportError(f"clang or {SOURCE} is missing; install clang, and run this in a clone")
    with tempfile.TemporaryDirectory() as folder:
        headers = [f"-idirafter{path}" for path in Path("/usr/include").glob("*-linux-gnu")]
        options = ["-O2", "-g", "-mcpu=v3", "-target", "bpf", *headers, "-c", str(SOURCE), "-o", f"{folder}/program.o"]
        started = time.perf_counter()
        done = subprocess.run([clang, *options], capture_output=True, text=True, timeout=COMPILE_S, check=False)
        elapsed = time.perf_counter() - started
    if done.returncode != 0:
        raise SupportError(f"clang cannot compile {SOURCE}: {done.stderr.strip()[:300]}")
    return elapsed


def ratios(results: list[Result]) -> list[Ratio]:
    """Ours over the paper's."""
    return [Ratio(f"{r.name} / XAgg's {PAPER_S[r.name]} s", r.median / PAPER_S[r.name]) for r in results
            if r.name in PAPER_S]  # fmt: skip
