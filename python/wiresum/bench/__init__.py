"""Benchmarks: the product and its rival in the same run, medians and ratios, as a table and as JSON.

A benchmark is a folder here, with its command in `command.py`, and one line below. The command line and its help,
`make bench` and the table in docs/benchmarks.md follow from that line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiresum.registry import Registry

if TYPE_CHECKING:
    from wiresum.bench.command import Benchmark

BENCHMARKS: Registry[Benchmark] = Registry(
    {
        "allreduce": "wiresum.bench.allreduce.command:allreduce",
        "collectives": "wiresum.bench.collectives.command:collectives",
        "fsdp": "wiresum.bench.fsdp.command:fsdp",
        "latency": "wiresum.bench.latency.command:latency",
        "line": "wiresum.bench.line.command:line",
        "sparse-allreduce": "wiresum.bench.sparse_allreduce.command:sparse_allreduce",
        "sparse": "wiresum.bench.sparse.command:sparse",
        "sparse-training": "wiresum.bench.sparse_training.command:sparse_training",
        "compare": "wiresum.bench.compare.command:compare",
        "forest": "wiresum.bench.forest.command:forest",
        "heterogeneity": "wiresum.bench.heterogeneity.command:heterogeneity",
        "async": "wiresum.bench.participation.command:asynchronous",
        "compression": "wiresum.bench.compression.command:compression",
        "loss": "wiresum.bench.loss.command:loss",
        "aggregator": "wiresum.bench.aggregator.command:aggregator",
        "switch": "wiresum.bench.switch.command:switch",
        "codec": "wiresum.bench.codec.command:codec",
        "accuracy": "wiresum.bench.accuracy.command:accuracy",
        "rows": "wiresum.bench.rows.command:rows",
        "tracking": "wiresum.bench.tracking.command:tracking",
        "gpu": "wiresum.bench.gpu.command:gpu",
        "asynchrony": "wiresum.bench.asynchrony.command:asynchrony",
        "planners": "wiresum.bench.planners.command:planners",
        "routing": "wiresum.bench.routing.command:routing",
        "schedule": "wiresum.bench.schedule.command:schedule",
        "coflows": "wiresum.bench.coflows.command:coflows",
        "sim": "wiresum.bench.sim.command:sim",
        "live": "wiresum.bench.live.command:live",
        "elastic": "wiresum.bench.elastic.command:elastic",
        "kills": "wiresum.bench.kills.command:kills",
        "isolation": "wiresum.bench.isolation.command:isolation",
        "security": "wiresum.bench.security.command:security",
        "coexistence": "wiresum.bench.coexistence.command:coexistence",
        "rates": "wiresum.bench.rates.command:rates",
        "deploy": "wiresum.bench.deploy.command:deploy",
        "circuits": "wiresum.bench.circuits.command:circuits",
        "turns": "wiresum.bench.turns.command:turns",
        "upgrade": "wiresum.bench.upgrade.command:upgrade",
        "start": "wiresum.bench.start_up.command:start",
    }
)
"""By the name that `wiresum bench` takes, in the order of its help."""
