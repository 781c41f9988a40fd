"""Eq. (1) in the radius formulation (Cornuéjols, Nemhauser & Wolsey, 1980): few columns, and the same bound.

A worker's distance is D_w(PS) less one for each radius d < D_w(PS) within which a node is open. So instead of a column
for each worker and switch there is one for each *ball*, a set of switches within some distance of some worker, and most
workers share theirs:

    minimise    Σ_g b(g) · ( Σ_w D_w(PS)  −  Σ_balls weight · z_g^ball  +  Σ_s x_g^s · D_s(PS) )
    subject to  z_g^ball ≤ Σ over s in ball of x_g^s,  z ≤ 1,  x binary,  and the memory rows

z needs not be binary: its best value is 0 or 1 when x is. Relaxed, it has the value of Eq. (1) relaxed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wiresum.plan.assignment.instance import PS
from wiresum.planners.goat.problem import Problem
from wiresum.topology.graph import Bools, Floats, summed_by


@dataclass(frozen=True, eq=False)
class Coverage:
    """What a sub-model saves, by unit of its size.

    Attributes:
        members: (balls, switches) whether the switch is in the ball; switch i is aggregator i + 1.
        weight: (balls,) links that all workers save if one of the ball's switches is open.
        base: links without any switch.
    """

    members: Bools
    weight: Floats
    base: int

    @classmethod
    def of(cls, problem: Problem) -> Coverage:
        """The balls of a problem."""
        to_server, switches = problem.hops[:, PS], problem.hops[:, 1:]
        balls: list[Bools] = []
        weights: list[Floats] = []
        for radius in range(1, int(to_server.max(initial=0))):
            within = (switches <= radius) & (to_server > radius)[:, None]
            some = within.any(axis=1)
            balls.append(within[some])
            weights.append(problem.workers[some].astype(np.float64))
        base = int(to_server @ problem.workers)
        if not balls:
            return cls(np.zeros((0, switches.shape[1]), dtype=np.bool_), np.zeros(0), base)
        members, which = np.unique(np.concatenate(balls), axis=0, return_inverse=True)
        return cls(members, summed_by(which.ravel(), np.concatenate(weights), len(members)), base)

    @property
    def columns(self) -> int:
        """Columns of one sub-model in a programme."""
        return int(sum(self.members.shape))
