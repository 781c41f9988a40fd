"""A workload in numbers, for people and for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import median_low
from typing import Any

from wiresum.workload.model import Workload


def summarize(workload: Workload) -> dict[str, Any]:
    """What is in it: jobs by synchrony and size, bytes, the time in which they come, and the fullest locations."""
    jobs = workload.jobs
    locations: Counter[str] = Counter()
    for job in jobs:
        locations.update(job.workers)
    return {
        "name": workload.name,
        "jobs": len(jobs),
        "stars": sum(job.synchrony == "star" for job in jobs),
        "coflows": sum(job.synchrony == "coflow" for job in jobs),
        "last_arrival_s": jobs[-1].arrival_s,
        "workers": _spread([job.worker_count for job in jobs]),
        "locations_of_a_job": _spread([len(job.workers) for job in jobs]),
        "iterations": sum(job.iterations for job in jobs),
        "bytes": sum(job.total_bytes for job in jobs),
        "fullest_locations": dict(locations.most_common(8)),
    }


def describe(workload: Workload) -> str:
    """The same in words."""
    told = summarize(workload)
    fullest = ", ".join(f"{location} {workers}" for location, workers in told["fullest_locations"].items())
    return (
        f"{told['name']}: {told['jobs']} jobs ({told['stars']} stars, {told['coflows']} coflows), "
        f"the last one at {told['last_arrival_s']:g} s\n"
        f"workers of a job: {_range(told['workers'])}\n"
        f"locations of a job's workers: {_range(told['locations_of_a_job'])}\n"
        f"bytes that workers send: {told['bytes'] / 1e9:.3f} GB in {told['iterations']} iterations\n"
        f"workers at the fullest locations: {fullest}"
    )


def _spread(numbers: list[int]) -> dict[str, int]:
    return {"least": min(numbers), "median": median_low(numbers), "most": max(numbers)}


def _range(numbers: Mapping[str, int]) -> str:
    return f"{numbers['least']} to {numbers['most']}, median {numbers['median']}"
