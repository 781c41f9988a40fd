"""Methods of in-network aggregation as they are simulated beside each other, and many such runs at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from wiresum.errors import SimulationError
from wiresum.sim.outcome import SimulationOutcome
from wiresum.sim.sweep import Point, Sweep
from wiresum.topology.model import Topology

QUEUE_BYTES = 8_000_000
"""Room for the windows of all workers, as methods with fixed windows heed no queue."""
ECN_BYTES = 150_000

Progress = Callable[[int, int], None]
Case = TypeVar("Case", bound=Hashable)


@dataclass(frozen=True)
class Method:
    """How a method is simulated.

    Attributes:
        planner: who says what is summed where. Its switches have the policy of the planner with the method's name:
            P4INC-AOI leaves to others where its sums are made, here to ATP.
        once: whether contributions are summed once.
        bypasses: whether late workers bypass switches, as GOAT's evaluation has it.
    """

    planner: str
    once: bool = False
    bypasses: bool = False

    def late(self, workers: Sequence[str], share: float, seed: int) -> list[str]:
        """The workers that bypass switches: this share of them, chosen at random."""
        return Random(seed).sample(workers, round(share * len(workers))) if self.bypasses else []


METHODS = {
    "ps": Method("ps"),
    "switchml": Method("switchml"),
    "atp": Method("atp"),
    "atp_static": Method("atp-static", bypasses=True),
    "esa": Method("esa"),
    "goat": Method("goat"),
    "ingo": Method("ingo"),
    "p4inc-aoi": Method("atp", once=True),
}
"""By name. `atp_static` is GOAT's model of ATP: the nearest switch holds the first layers that fit, and no switch sums
a worker that is late; the deviation is the part of the workers that is late, as in the paper's public simulation."""


def simulated(
    folder: Path,
    points: Mapping[Case, Point],
    measure: Callable[[SimulationOutcome], dict[str, Any]],
    progress: Progress,
    *,
    model_bytes: int,
    train: int,
    remark: str = "",
    store: Path | None = None,
) -> dict[Case, dict[str, Any]]:
    """Simulates all points as trains, on all cores.

    Args:
        folder: where their networks are.
        points: what is changed in each run.
        measure: what is kept of each.
        progress: is told how many runs have ended, and of how many.
        model_bytes: of a gradient, where a point does not say.
        train: packets in one.
        remark: tells stored results of other options from these.
        store: file with a line for each run; those that are there are not run again.

    Raises:
        SimulationError: a run made no progress.
    """
    scenario = folder / "scenario.toml"
    scenario.write_text(f"""{remark}
format = "wiresum-scenario/1"
topology = "network.json"
fidelity = "trains"
train = {train}
[links]
queue_bytes = {QUEUE_BYTES}
ecn_bytes = {ECN_BYTES}
[[job]]
bytes = {model_bytes}
""", encoding="utf-8")  # fmt: skip
    found = {}
    sweep = Sweep(scenario, Topology.read, {}, store, given=list(points.values()), measure=measure)
    for result in sweep.results():
        if "error" in result:
            raise SimulationError(f"{result['point']['job'][0]['name']}: {result['error']}")
        found[str(result["point"])] = result["summary"]
        progress(len(found), len(points))
    return {case: found[str(point)] for case, point in points.items()}
