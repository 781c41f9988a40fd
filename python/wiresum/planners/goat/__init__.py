"""Planners of GOAT (Fang et al., 2024): its problem solved exactly; its algorithm KRGS, corrected and as printed."""

from wiresum.planners.goat.exact import goat
from wiresum.planners.goat.krgs import krgs, krgs_paper

__all__ = ["goat", "krgs", "krgs_paper"]
