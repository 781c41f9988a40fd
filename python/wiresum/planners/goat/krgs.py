"""KRGS, knapsack-based randomised rounding (GOAT §IV-C, Alg. 1)."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from wiresum.plan.assignment import Assignment, Instance
from wiresum.plan.options import PlanOptions
from wiresum.planners.goat.problem import Problem, proven, to_nearest
from wiresum.planners.goat.repair import repaired
from wiresum.planners.goat.rounding import CORRECTED, PRINTED, Rounded, rounded
from wiresum.planners.goat.solver import Answer, solve
from wiresum.predict.cost import cost_of


def krgs(instance: Instance, options: PlanOptions) -> Assignment:
    """Alg. 1 corrected, and always feasible; the best of `options.tries` seeds.

    Corrected: the relaxation is Eq. (1)'s, as Eq. (4) rewards far switches; k(g) is rounded down with a guard;
    knapsacks are packed longest first and evened out, as Lemma 3 needs; probabilities above 1 are normalised. Then
    switches over their memory give up what is worth least, workers go to the nearest switch that is left, and what
    memory is left is filled with what saves most.

    Raises:
        PlanError: no switch sums, or a sub-model exceeds every memory.
        SupportError: the solver is not installed.
    """
    began_s = time.monotonic()
    corrected = Corrected.of(instance, options.time_limit_s)
    seeds = range(options.seed, options.seed + options.tries)
    best = min((corrected.round(seed) for seed in seeds), key=lambda one: one.solution.value)
    return _with_seconds(best, time.monotonic() - began_s)


def krgs_paper(instance: Instance, options: PlanOptions) -> Assignment:
    """Alg. 1 as printed: Eq. (4), rounding without a guard, list scheduling. It may break memory limits, and says so.

    Negative probabilities of the parameter server count as 0, as a draw needs some reading of them.

    Raises:
        PlanError: no switch sums, or a sub-model exceeds every memory.
        SupportError: the solver is not installed.
    """
    began_s = time.monotonic()
    printed = Printed.of(instance, options.time_limit_s)
    return _with_seconds(printed.round(options.seed), time.monotonic() - began_s)


def _with_seconds(assignment: Assignment, seconds: float) -> Assignment:
    return replace(assignment, solution=assignment.solution.model_copy(update={"seconds": seconds}))


@dataclass(frozen=True, eq=False)
class Corrected:
    """Alg. 1 corrected, after its step 1: several roundings share the relaxation."""

    instance: Instance
    problem: Problem
    relaxed: Answer

    @classmethod
    def of(cls, instance: Instance, time_limit_s: float) -> Corrected:
        """Solves Eq. (1) relaxed."""
        problem = Problem.of(instance)
        return cls(instance, problem, solve(problem, "relaxed", time_limit_s, "krgs"))

    def round(self, seed: int) -> Assignment:
        """Steps 2 and 3, made feasible."""
        random = np.random.default_rng(seed)
        found = rounded(self.problem, self.relaxed.x, self.instance.groups.of, CORRECTED, random)
        opened = repaired(self.problem, found.opened)
        value = self.problem.value(opened)
        solution = proven(value, self.relaxed.bound, solver="krgs (highs)", status="feasible", seed=seed)
        return to_nearest(self.instance, opened, solution)


@dataclass(frozen=True, eq=False)
class Printed:
    """Alg. 1 as printed, after its step 1: several roundings share the relaxation."""

    instance: Instance
    problem: Problem
    relaxed: Answer

    @classmethod
    def of(cls, instance: Instance, time_limit_s: float) -> Printed:
        """Solves Eq. (4) relaxed."""
        problem = Problem.of(instance)
        return cls(instance, problem, solve(problem, "as_printed", time_limit_s, "krgs-paper"))

    def outcome(self, seed: int) -> Rounded:
        """Steps 2 and 3."""
        random = np.random.default_rng(seed)
        return rounded(self.problem, self.relaxed.x, self.instance.groups.of, PRINTED, random)

    def round(self, seed: int) -> Assignment:
        """Steps 2 and 3, as an answer with its value by Eq. (1)."""
        found = self.outcome(seed)
        draft = Assignment(
            self.instance,
            found.target,
            proven(0.0, None, solver="krgs-paper (highs)", status="heuristic"),
            allocation="oversubscribed",
        )
        value = cost_of(draft, predict=False).total_bytes
        solution = proven(value, self.relaxed.bound, solver="krgs-paper (highs)", status="heuristic", seed=seed)
        return Assignment(self.instance, found.target, solution, allocation="oversubscribed")
