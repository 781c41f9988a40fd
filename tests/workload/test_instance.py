"""What schedulers of circuits are told of a topology and a workload."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiresum.errors import TopologyError, WorkloadError
from wiresum.topology.circuits import between, fibres, uniform
from wiresum.topology.generators.optical import optical
from wiresum.workload.instance import instance
from wiresum.workload.model import Workload
from wiresum.workload.poisson import poisson
from wiresum.workload.sites import unit_of_location, units_of

THREE = optical(3, 2, servers_per_unit=1, ports=2, rate_bps=40e9, dark_s=0.02, settle_s=0.01, places=2)


def workload(**job):
    return Workload.build(name="w", jobs=[{"name": "a", **job}])


def test_an_instance_has_the_rates_ports_places_and_circuits_of_the_topology():
    job = workload(workers={"w0": 1, "u1": 2}, server="ps2", bytes=100, iterations=3)
    told = instance(THREE, job, 1.0, uniform(THREE))
    assert told["dark_s"] == pytest.approx(0.03)
    assert (told["port_bps"], told["host_bps"], told["server_bps"]) == (40e9, 40e9, 40e9)
    assert told["units"][0] == {"name": "u0", "ports": 2, "switch_bps": 2 * 3 * 40e9, "places": 2}
    assert sum(one["circuits"] for one in told["before"]["given"]) == 3
    assert told["jobs"][0]["traffic"]["star"] == {
        "workers": {"u0": 1, "u1": 2}, "server": "u2", "server_host": "ps2", "bytes": 300, "update_s": 0.0,
    }  # fmt: skip


def test_a_coflow_becomes_flows_with_all_of_its_bytes():
    flows = instance(
        THREE, workload(synchrony="coflow", workers={"u0": 2, "w2": 1}, sinks={"u1": 90, "ps2": 9}), 1.0
    )["jobs"][0]["traffic"]["flows"]  # fmt: skip
    assert {(flow["from"], flow["to"]): flow["bytes"] for flow in flows} == {
        ("u0", "u1"): 60, ("u1", "u1"): 30, ("u0", "u2"): 6, ("u1", "u2"): 3,
    }  # fmt: skip


@given(st.booleans(), st.integers(0, 50))
def test_locations_by_host_and_by_unit_tell_schedulers_the_same(by_host, seed):
    topology = optical(4, 8, servers_per_unit=2, ports=4)
    made = poisson(topology, 10, 1.0, [2, 4, 8], (5, 9), spread=0.3, by_host=by_host, seed=seed)
    names = unit_of_location(units_of(topology))
    for job, told in zip(made.jobs, instance(topology, made, 1.0)["jobs"], strict=True):
        counted = Counter()
        for location, count in job.workers.items():
            counted[names[location]] += count
        assert told["traffic"]["star"]["workers"] == counted
        assert told["traffic"]["star"]["server"] == names[job.server]


@pytest.mark.parametrize(
    ("topology", "job", "slot_s", "named"),
    [
        (THREE, {"workers": {"u7": 1}, "bytes": 1}, 1.0, "job a: u7 is no unit or host"),
        (THREE, {"workers": {"u0": 1, "u1": 1}, "bytes": 1}, 1.0,
         "job a: its workers are in 2 units, and it has no `server`"),
        (optical(4, 2, ports=2), {"workers": {"u0": 1, "u1": 1, "u2": 1}, "server": "u3", "bytes": 1}, 1.0,
         "workers in 3 units send to u3 at once, which has 2 ports; give it more ports, put it in fewer units"),
        (THREE, {"workers": {"u0": 1}, "bytes": 1}, 0.03, "a slot of 0.03 s is over before oxc has light"),
        (optical(2, 1, ports=2, switches=2), {"workers": {"u0": 1}, "bytes": 1}, 1.0, "has 2 optical switches"),
        (optical(2, 1, rate_bps=None), {"workers": {"u0": 1}, "bytes": 1}, 1.0, "has no rate"),
        (optical(2, 1, rate_bps=1e9).model_copy(update={"links": [
            link.model_copy(update={"bandwidth_bps": 2e9}) if link.id == "w1-u1" else link
            for link in optical(2, 1, rate_bps=1e9).links
        ]}), {"workers": {"u0": 1}, "bytes": 1}, 1.0, "w0 has 1e+09 bit/s and w1 2e+09"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_remedy(topology, job, slot_s, named):
    with pytest.raises(WorkloadError, match=re.escape(named)):
        instance(topology, workload(**job), slot_s)


@given(st.integers(2, 6), st.integers(1, 5), st.data())
def test_circuits_between_units_are_as_many_as_wanted_and_those_that_stay_are_not_touched(units, ports, data):
    topology = optical(units, 1, ports=ports)
    before = uniform(topology)
    unit = {fibre.link.id: fibre.unit for fibre in fibres(topology)}

    def pairs(circuits):
        return Counter(frozenset(unit[link] for link in circuit.links) for circuit in circuits)

    free = dict.fromkeys(unit.values(), ports)
    wanted = Counter()
    for _ in range(data.draw(st.integers(0, 12))):
        one, other = data.draw(st.permutations(sorted(free)))[:2]
        if free[one] and free[other]:
            free[one], free[other] = free[one] - 1, free[other] - 1
            wanted[frozenset({one, other})] += 1
    made = between(topology, wanted, before)
    topology.with_circuits(made)
    assert pairs(made) == wanted
    stayed = [circuit for circuit in made if circuit in before]
    assert len(stayed) == (pairs(before) & wanted).total()


def test_too_many_circuits_are_refused_by_their_units():
    with pytest.raises(TopologyError, match="u0 and u1 have no two free ports"):
        between(THREE, {frozenset({"u0", "u1"}): 3})
