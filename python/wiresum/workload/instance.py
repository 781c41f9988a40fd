"""From a topology and a workload to what schedulers of circuits read: units with ports, rates and places, and jobs.

Its fields are those of `crates/schedule/src/instance.rs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wiresum.errors import WorkloadError
from wiresum.topology.circuits import Fibre, fibres, optical_switches
from wiresum.topology.model import Node, Topology
from wiresum.topology.optical import Circuit
from wiresum.workload.model import Workload, WorkloadJob
from wiresum.workload.sites import Unit, unit_of_location, units_of

FORMAT = "wiresum-circuit-instance/1"
MOST_SLOTS = 100_000
"""Slots that a job may send or wait for, at least: schedulers keep a table with a column for each."""
UNLIMITED_PLACES = (1 << 32) - 1
"""`places` of a switch that does not say how many jobs it sums at once: more than any instance has jobs."""


def instance(
    topology: Topology,
    workload: Workload,
    slot_s: float,
    lit: Iterable[Circuit] = (),
    *,
    paper: bool = False,
    contiguous: bool = True,
    slots: bool = True,
    trees: bool = False,
) -> dict[str, Any]:
    """An instance, ready for JSON. Jobs have numbers from 1 in the workload's order.

    A job's iterations are put together, as schedulers give it one run of slots; computing is not part of it.

    Args:
        topology: with one optical switch.
        workload: whose locations are in it.
        slot_s: seconds after which circuits may change.
        lit: circuits that are there before.
        paper: count as P4INC-AOI does.
        contiguous: a star that has begun sends in every slot until it ends.
        slots: circuits and rates change with slots only.
        trees: switches of several units may sum a job together.

    Raises:
        WorkloadError: the two do not fit; the message names the job, or the part of the topology, and the remedy.
    """
    switch = _only_switch(topology)
    ends = fibres(topology)
    found = units_of(topology)
    dark_s = switch.oxc.dark_s + switch.oxc.settle_s if switch.oxc else 0.0
    if slot_s <= dark_s:
        raise WorkloadError(f"a slot of {slot_s} s is over before {switch.name} has light ({dark_s} s); make it longer")
    ports = Counter(fibre.unit for fibre in ends)
    names = unit_of_location(found)
    _check(workload, names, ports, trees)
    _require_who_sums(topology, workload, names)
    links = {end: link for link in topology.links for end in (link.source, link.target)}
    hosts = [host for unit in found for host in unit.hosts]
    servers = [server for unit in found for server in unit.servers]
    rate = _rate(links)
    port_bps = _one_rate({fibre.link.id: fibre.link.bandwidth_bps for fibre in ends}, "fibres")
    host_bps = _one_rate({host: rate(host) for host in hosts}, "hosts")
    for job in workload.jobs if slots else ():
        _check_slots(job, max(port_bps, host_bps), slot_s)
    return {
        "format": FORMAT,
        "slot_s": slot_s,
        "dark_s": dark_s,
        "darkens": switch.oxc.darkens if switch.oxc else "added",
        "port_bps": port_bps,
        "host_bps": host_bps,
        **({"server_bps": _one_rate({server: rate(server) for server in servers}, "servers")} if servers else {}),
        "units": [_unit(topology.node(unit.name), unit, ports[unit.name], rate) for unit in found],
        "before": {"given": _counted(lit, ends)},
        "jobs": [_job(number, job, names) for number, job in enumerate(workload.jobs, 1)],
        "paper": paper,
        "contiguous": contiguous,
        "slots": slots,
        "trees": trees,
    }


def _only_switch(topology: Topology) -> Node:
    switches = optical_switches(topology)
    if len(switches) != 1:
        problem = f"topology {topology.name} has {len(switches)} optical switches, and schedulers plan for one"
        raise WorkloadError(f"{problem}; take `optical`, or `racks` with `--ports`")
    return switches[0]


def _check(workload: Workload, names: Mapping[str, str], ports: Mapping[str, int], trees: bool) -> None:
    for job in workload.jobs:
        strange = sorted(job.locations - set(names))
        if strange:
            raise WorkloadError(f"job {job.name}: {strange[0]} is no unit or host of the topology; correct it")
        if job.synchrony == "star":
            _check_star(job, names, ports, trees)


def _check_star(job: WorkloadJob, names: Mapping[str, str], ports: Mapping[str, int], trees: bool) -> None:
    own = {names[location] for location in job.workers}
    if job.server is None and len(own) > 1:
        raise WorkloadError(f"job {job.name}: its workers are in {len(own)} units, and it has no `server`; name one")
    at = names[job.server] if job.server else next(iter(own))
    if not trees and len(own - {at}) > ports.get(at, 0):
        raise WorkloadError(
            f"job {job.name}: workers in {len(own - {at})} units send to {at} at once, which has {ports.get(at, 0)} "
            "ports; give it more ports, put it in fewer units, let switches sum it along a tree, or make it a coflow"
        )


def _require_who_sums(topology: Topology, workload: Workload, names: Mapping[str, str]) -> None:
    """Refuses a job that neither a server nor a switch can sum."""
    without = {node.name for node in topology.nodes if node.kind == "switch" and (node.places == 0 or not node.sums)}
    for job in workload.jobs:
        unit = names[next(iter(job.workers))]
        if job.synchrony == "star" and job.server is None and unit in without:
            problem = f"its workload names no server, and the switch of {unit} has no place to sum it"
            raise WorkloadError(f"job {job.name}: {problem}; name a server, or give {unit} places")


def _check_slots(job: WorkloadJob, fastest_bps: float, slot_s: float) -> None:
    """Refuses a job that needs more slots than there may be."""
    most_bytes = max([job.bytes or 0, *(total / job.worker_count for total in job.sinks.values())]) * job.iterations
    sending, waiting = 8 * most_bytes / (fastest_bps * slot_s), job.arrival_s / slot_s
    if max(sending, waiting) > MOST_SLOTS:
        what = f"{most_bytes:.3g} bytes take {sending:.3g}" if sending > waiting else f"it comes after {waiting:.3g}"
        problem = f"{what} slots of {slot_s:g} s, and there are {MOST_SLOTS} at most"
        raise WorkloadError(f"job {job.name}: {problem}; make slots longer, or cut the job into several")


def _rate(links: Mapping[str, Any]) -> Callable[[str], float | None]:
    """bit/s of a host's link, in the slower direction."""

    def of(host: str) -> float | None:
        link = links[host]
        rates = [link.bandwidth_from(end) for end in (link.source, link.target)]
        return None if None in rates else min(rates)

    return of


def _one_rate(rates: Mapping[str, float | None], what: str) -> float:
    unlimited = next((name for name, rate in rates.items() if rate is None), None)
    if unlimited is not None or not rates:
        raise WorkloadError(f"{what}: {unlimited or 'none'} has no rate, and schedulers need one; give `bandwidth_bps`")
    (slow, slowest), (fast, fastest) = (pick(rates.items(), key=lambda one: one[1] or 0) for pick in (min, max))
    if slowest != fastest:
        problem = f"{slow} has {slowest:g} bit/s and {fast} {fastest:g}, and schedulers count with one rate"
        raise WorkloadError(f"{what}: {problem}; make them equal")
    return float(slowest or 0)


def _unit(node: Node, unit: Unit, ports: int, rate: Callable[[str], float | None]) -> dict[str, Any]:
    total = sum(rate(host) or 0.0 for host in (*unit.hosts, *unit.servers))
    places = (UNLIMITED_PLACES if node.places is None else node.places) if node.sums else 0
    return {"name": unit.name, "ports": ports, "switch_bps": 2 * total, "places": places}


def _counted(lit: Iterable[Circuit], ends: Sequence[Fibre]) -> list[dict[str, Any]]:
    unit = {fibre.link.id: fibre.unit for fibre in ends}
    pairs = Counter(tuple(sorted(unit[link] for link in circuit.links)) for circuit in lit)
    return [{"between": [*pair], "circuits": count} for pair, count in sorted(pairs.items())]


def _job(number: int, job: WorkloadJob, names: Mapping[str, str]) -> dict[str, Any]:
    traffic = {"star": _star(job, names)} if job.synchrony == "star" else {"flows": _flows(job, names)}
    return {"id": number, "arrival_s": job.arrival_s, "weight": job.weight, "traffic": traffic}


def _star(job: WorkloadJob, names: Mapping[str, str]) -> dict[str, Any]:
    workers = _by_unit(job.workers, names)
    return {
        "workers": workers,
        "server": names[job.server] if job.server else next(iter(workers)),
        "bytes": job.worker_bytes,
        "update_s": job.update_s,
        **({"server_host": job.server} if job.server and names[job.server] != job.server else {}),
        **({"via": job.via} if job.via else {}),
    }


def _flows(job: WorkloadJob, names: Mapping[str, str]) -> list[dict[str, Any]]:
    mappers, sinks = _by_unit(job.workers, names), _by_unit(job.sinks, names)
    return [
        {"from": source, "to": sink, "bytes": total * job.iterations * count / job.worker_count}
        for sink, total in sinks.items()
        for source, count in mappers.items()
    ]


def _by_unit(locations: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for location, count in locations.items():
        counted[names[location]] += count
    return dict(counted)
