"""Papers, statement by statement: as printed, computed again, and measured again with the product."""

from wiresum.reproduce.goat import PAPER as GOAT
from wiresum.reproduce.ingo import PAPER as INGO
from wiresum.reproduce.row import CLASSES, Benchmark, Figure, Finding, Paper, Row
from wiresum.reproduce.session import Session
from wiresum.reproduce.xagg import PAPER as XAGG

PAPERS: dict[str, Paper] = {"goat": GOAT, "ingo": INGO, "xagg": XAGG}
"""By the name that a command line takes; each is a package here and one line."""

__all__ = ["CLASSES", "PAPERS", "Benchmark", "Figure", "Finding", "Paper", "Row", "Session"]
