"""Plans and assignments that follow a network that has changed, with as few moves as possible.

`keep` is for assignments of networks of any size; plans of runners are mended, and relieved of load, by `adjust`.
"""

from wiresum.adjust.adjustment import Adjustment, Load, adjust
from wiresum.adjust.keeping import Kept, keep

__all__ = ["Adjustment", "Kept", "Load", "adjust", "keep"]
