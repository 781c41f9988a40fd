"""How many workers a round waits for: GOAT-Async (Fang et al., 2024, §V) and its rival K-SGD."""

from wiresum.plan.convergence import Convergence
from wiresum.planners.participation.counts import contributions, proportional_counts, with_rounds
from wiresum.planners.participation.search import Choice, choose_goat_async, choose_ksgd, round_seconds

__all__ = [
    "Choice",
    "Convergence",
    "choose_goat_async",
    "choose_ksgd",
    "contributions",
    "proportional_counts",
    "round_seconds",
    "with_rounds",
]
