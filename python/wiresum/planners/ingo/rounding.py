"""R-InGo's randomised rounding (Alg. 2, step 2), corrected and repeated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wiresum.plan.assignment.instance import PS
from wiresum.planners.ingo.choices import Choices
from wiresum.planners.ingo.relaxation import Relaxation
from wiresum.planners.ingo.selection import Selection
from wiresum.topology.graph import Floats


def roundings(choices: Choices, relaxation: Relaxation, samples: int, seed: int) -> Iterator[Selection]:
    """Selections drawn from the relaxation.

    A worker's aggregator and path are drawn together: x̃ · q̃/x̃ = q̃. A sum's path is drawn with q̃/ỹ, renormalised over
    the paths of that switch, as ỹ may be far below 1; where it is 0 by the solver's tolerance, all are equally likely.
    """
    random = np.random.default_rng(seed)
    for _ in range(samples):
        workers = [
            ways[random.choice(len(ways), p=_probabilities(shares))]
            for ways, shares in zip(choices.of_workers, relaxation.of_workers, strict=True)
        ]
        sums = {
            used: choices.of_aggregators[used][
                random.choice(len(choices.of_aggregators[used]), p=_probabilities(relaxation.of_aggregators[used]))
            ]
            for used in sorted({way.aggregator for way in workers} - {PS})
        }
        yield Selection(workers, sums)


def _probabilities(shares: Floats) -> Floats:
    positive = np.maximum(shares, 0.0)
    total = positive.sum()
    return positive / total if total > 0 else np.full(len(shares), 1 / len(shares))
