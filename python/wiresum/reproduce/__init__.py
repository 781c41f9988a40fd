"""Papers, statement by statement: as printed, computed again, and measured again with the product.

A paper is a folder here and one line below. The command line and its help, and the table in docs/reproduction.md follow
from that line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiresum.registry import Registry

if TYPE_CHECKING:
    from wiresum.reproduce.row import Paper

PAPERS: Registry[Paper] = Registry(
    {
        "goat": "wiresum.reproduce.goat:PAPER",
        "ingo": "wiresum.reproduce.ingo:PAPER",
        "p4inc-aoi": "wiresum.reproduce.p4inc_aoi:PAPER",
        "xagg": "wiresum.reproduce.xagg:PAPER",
        "zebra": "wiresum.reproduce.zebra:PAPER",
    }
)
"""By the name that a command line takes."""
