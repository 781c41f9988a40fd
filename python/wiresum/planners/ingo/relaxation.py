"""InGo's linear programme (Eq. 43), corrected: min g = 1/f, shares of ways instead of one.

The paper maximises f in rows that are linear in g; x_w^s ≤ y^s holds for every worker and switch, and the sums' paths
are those from switch to server in all rows. Of the optimal solutions, the one with the fewest links is taken: it opens
few aggregators, and rounding loses less.

Tightened, the programme asks whether there are shares at a rate f when every capacity holds ⌊capacity / f⌋ flows, as it
does for whole flows, and a switch's sum has to be as large as what its links bring. Its shares are nearly whole.

`linear` is the solver.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wiresum.planners.ingo.choices import Choices
from wiresum.planners.optimisation.process import last_answer
from wiresum.topology.graph import Floats

SOLVER = "wiresum.planners.ingo.linear"


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Shares of ways (q̃ of Alg. 2).

    Attributes:
        rate: in the unit of capacities; no selection of these ways is faster, unless a time limit has passed.
        of_workers: of each worker, the share of each of its ways; they add up to 1.
        of_aggregators: of each aggregator, likewise; they add up to ỹ, which may be tiny.
    """

    rate: float
    of_workers: Sequence[Floats]
    of_aggregators: Sequence[Floats]


def relax(choices: Choices, time_limit_s: float, planner: str, bound: float | None = None) -> Relaxation:
    """Solves the relaxation.

    Args:
        choices: the ways.
        time_limit_s: for all programmes together.
        planner: for whom, for messages.
        bound: tightens, from this rate downwards; the programme is the paper's where absent.

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: there was no answer in time.
    """
    question = json.dumps([bound, choices.to_json()])
    columns = sum(len(ways) for ways in (*choices.of_workers, *choices.of_aggregators))
    rate, workers, aggregators = json.loads(last_answer(SOLVER, question, time_limit_s, planner, columns))
    return Relaxation(rate, [np.array(row) for row in workers], [np.array(row) for row in aggregators])
