"""What GOAT's theorems promise of KRGS, evaluated for an instance (§IV-D)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wiresum.planners.goat.problem import Problem

EXPECTED_FACTOR = 2.0
"""What is opened and sent is in expectation at most this many times the relaxed value (Lemma 3, Eq. 13)."""
TIGHT_LOGARITHMS = 3.0
"""ν of at least this many log |S| tightens the memory factor (Theorem 5)."""
TIGHT_FACTOR = 4.0


@dataclass(frozen=True)
class Bounds:
    """Theorem 5 for one instance, with natural logarithms (the paper's example takes log₁₀; it holds with both).

    Attributes:
        nu: ν, twice the smallest memory over the largest sub-model.
        switches: |S|.
    """

    nu: float
    switches: int

    @classmethod
    def of(cls, problem: Problem) -> Bounds:
        """The bounds of a problem."""
        smallest = float(np.min(problem.memory[1:]))
        return cls(2 * smallest / float(problem.sizes.max()), len(problem.memory) - 1)

    @property
    def rho(self) -> float:
        """ϱ of Eq. (17), from which on memory is exceeded with probability 1/|S| at most."""
        logarithm = math.log(self.switches)
        return (logarithm + math.sqrt(logarithm**2 + 8 * self.nu * logarithm)) / (2 * self.nu)

    @property
    def memory_factor(self) -> float:
        """2 (1 + ϱ): no switch holds more than this times its memory, with that probability."""
        return EXPECTED_FACTOR * (1 + self.rho)

    @property
    def is_tight(self) -> bool:
        """Whether ν ≥ 3 log |S|, so that the factor is 4 at most."""
        return self.nu >= TIGHT_LOGARITHMS * math.log(self.switches)

    @property
    def stated_factor(self) -> float:
        """The factor as the theorem states it: 4 where ν is large enough, 2 log |S| / ν + 6 otherwise."""
        return TIGHT_FACTOR if self.is_tight else 2 * math.log(self.switches) / self.nu + 6
