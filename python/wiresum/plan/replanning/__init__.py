"""Answers that follow a network that has changed, with as few moves as possible.

`keep` is for assignments of networks of any size; plans of runners are mended, and relieved of load, by
`wiresum.plan.adjust`.
"""

from wiresum.plan.replanning.keeping import Kept, keep

__all__ = ["Kept", "keep"]
