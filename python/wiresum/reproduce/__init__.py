"""Papers, statement by statement: as printed, computed again, and measured again with the product.

A paper is a folder here and two lines below. The command line and its help, and the table in docs/reproduction.md
follow from these lines.
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
TITLES = {
    "goat": "Fang et al., “Accelerating Distributed Training With Collaborative In-Network Aggregation”, IEEE/ACM "
    "Transactions on Networking, 2024",
    "ingo": "Bao et al., “InGo: In-Network Aggregation Routing with Batch Size Adjustment for Distributed Training”",
    "p4inc-aoi": "Xie et al., “P4INC-AOI: All-Optical Interconnect Empowered by In-Network Computing for DML "
    "Workloads”",
    "xagg": "Zhang et al., “XAgg: Accelerating Heterogeneous Distributed Training Through XDP-Based Gradient "
    "Aggregation”, IEEE/ACM Transactions on Networking, 2023",
    "zebra": "Pan et al., “Zebra: Accelerating Distributed Sparse Deep Training With in-Network Gradient Aggregation "
    "for Hot Parameters”",
}
"""Authors, title, place and year: a list of papers imports none of them."""
