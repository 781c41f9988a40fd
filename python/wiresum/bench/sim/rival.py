"""csg-htsim (Broadcom) beside the simulator's packets: a permutation over a fat-tree of as many hosts."""

from __future__ import annotations

import re
import resource
import subprocess
import tempfile
from pathlib import Path
from random import Random

from wiresum.errors import SupportError

MTU_BYTES = 1500
FLOW_BYTES = 250_000
"""Bytes that each host sends: enough that starting up does not matter; a thousand hosts take ten seconds and more."""
LINK_MBPS = 100_000
WINDOW = 64
"""Packets."""
TIME_LIMIT_S = 900.0
DELIVERED = re.compile(r"New:\s+(?P<packets>\d+)")
"""Its last line: data packets sent for the first time. It ends when all have arrived."""


def permutation(hosts: int, seed: int = 1) -> str:
    """Every host sends to another one, and receives from another one."""
    targets = list(range(hosts))
    Random(seed).shuffle(targets)
    pairs = list(zip(targets, [*targets[1:], targets[0]], strict=True))
    lines = [f"Nodes {hosts}", f"Connections {hosts}"]
    for index, (source, target) in enumerate(pairs):
        lines.append(f"{source}->{target} id {index + 1} start 0 size {FLOW_BYTES}")
    return "\n".join(lines) + "\n"


def packets_per_second(program: Path, hosts: int) -> float:
    """Data packets that a run of `htsim_ndp` delivers in a second of CPU time.

    Args:
        program: built from csg-htsim's `sim/datacenter`.
        hosts: of its fat-tree.

    Raises:
        SupportError: the program does not run, or does not say how many packets it sent.
    """
    with tempfile.TemporaryDirectory(prefix="wiresum-htsim-") as folder:
        matrix = Path(folder) / "permutation.cm"
        matrix.write_text(permutation(hosts), encoding="utf-8")
        command = [
            str(program), "-tm", str(matrix), "-nodes", str(hosts), "-conns", str(hosts), "-strat", "perm",
            "-mtu", str(MTU_BYTES), "-linkspeed", str(LINK_MBPS), "-cwnd", str(WINDOW), "-q", "50", "-end", "100000",
            "-o", str(Path(folder) / "log"),
        ]  # fmt: skip
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIME_LIMIT_S, cwd=folder)
        except (OSError, subprocess.SubprocessError) as failed:
            raise SupportError(f"{program} does not run ({failed}); give csg-htsim's htsim_ndp") from None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = DELIVERED.search(done.stdout)
    if said is None:
        raise SupportError(f"{program} does not say how many packets it sent; give csg-htsim's htsim_ndp")
    return int(said["packets"]) / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
