"""The forest's process: reads an instance, prints ever better forests."""

from __future__ import annotations

import sys

from wiresum.plan.forest.instance import Instance
from wiresum.plan.forest.solution import Forest
from wiresum.plan.optimisation.process import last_answer


def solve(instance: Instance, time_limit_s: float) -> Forest:
    """The fastest forest, or the best that was found in time.

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: not even one tree was found in time.
    """
    return Forest.parse(last_answer(__name__, instance.to_json(), time_limit_s, "forest")).trimmed()


def main() -> None:
    """The solver's process."""
    from wiresum.plan.forest.generation import Generation

    instance = Instance.parse(sys.stdin.read())
    for forest in Generation(instance, float(sys.argv[1])).forests():
        print(forest.to_json(), flush=True)


if __name__ == "__main__":
    main()
