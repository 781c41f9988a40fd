"""Rivals that sum elsewhere than in the network: one file each, and one line here."""

from wiresum.bench.baselines.baseline import Baseline, Run
from wiresum.bench.baselines.ps import PS
from wiresum.bench.baselines.sharded_ps import SHARDED_PS

BASELINES: dict[str, Baseline] = {baseline.name: baseline for baseline in (PS, SHARDED_PS)}
"""By the name that a command line takes."""

__all__ = ["BASELINES", "Baseline", "Run"]
