"""What the solver's process answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from wiresum.planners.forest.instance import Tree

MAX_TREES = 31
"""Trees of a plan. The XDP program has room for 32 streams; one is that of the exponents."""
MIN_SHARE = 1 / 500
"""A smaller share is left out: 17 packets of a 25 MB bucket, which a stream of its own would only delay."""


@dataclass(frozen=True)
class Forest:
    """A solution, in the units of the instance.

    Attributes:
        trees: those that are used, the one with the largest rate first.
        rates: of each tree.
        bound: no forest is faster; None if none was proven in time.
        left_out: rate that trees too many or too small would have added.
        rounds: of pricing.
    """

    trees: Sequence[Tree]
    rates: Sequence[float]
    bound: float | None
    left_out: float = 0.0
    rounds: int = 0

    @property
    def rate(self) -> float:
        """The common sending rate."""
        return sum(self.rates)

    @property
    def gap(self) -> float | None:
        """How far below the bound it is, relative to the bound; None without one."""
        return None if self.bound is None else max(0.0, 1 - self.rate / self.bound)

    def trimmed(self) -> Forest:
        """Without the trees that are too many or too small; the others keep their rates."""
        kept = [rate for rate in self.rates[:MAX_TREES] if rate >= MIN_SHARE * self.rate]
        left_out = self.left_out + sum(self.rates[len(kept) :])
        return replace(self, trees=self.trees[: len(kept)], rates=kept, left_out=left_out)

    def to_json(self) -> str:
        """One line of the solver's output."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, line: str, kind: type[Tree] = Tree) -> Forest:
        """What `to_json` has written, with trees of this kind."""
        content = json.loads(line)
        trees = [kind(**tree) for tree in content.pop("trees")]
        return cls(trees=trees, **content)
