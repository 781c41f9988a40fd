"""Plans over an optical switch of the testbed: what crosses fibres is what the plan says, and circuits move away."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.capabilities import engines
from tests.testbed.test_fabric import FRAGMENT_VALUES, RATE_BPS, assert_crossed, switched

from wiresum.bench.live.run import Ranks
from wiresum.circuits.control import apply, wait_for_light
from wiresum.circuits.drivers import connect
from wiresum.errors import TestbedError, TopologyError
from wiresum.predict.link_bytes import link_bytes
from wiresum.testbed import Testbed
from wiresum.testbed.fabric import lay_out
from wiresum.testbed.optical import lit_in
from wiresum.topology.circuits import fibres, named, uniform
from wiresum.topology.generators.racks import racks

ELEMENTS = 20_000
LARGE = 1_000_000
LIT_S = 0.05
"""Between two times of darkness."""


def optical_racks():
    """Two racks of workers and two of servers, with as many fibres as other racks; and some circuits."""
    topology = racks(2, hosts_per_rack=2, rate_bps=RATE_BPS, ports=3, dark_s=0.02)
    return topology, uniform(topology)


def crossed(topology, circuits, sent):
    """Bytes on each circuit, by its name as a link, from what its two fibres carried."""
    unit = {fibre.link.id: fibre for fibre in fibres(topology)}
    found = {}
    for link, circuit in zip(topology.with_circuits(circuits).links[-len(circuits) :], circuits, strict=True):
        there, back = (sent[one] for one in circuit.links)
        assert {unit[one].unit for one in circuit.links} == {link.source, link.target}
        # A fibre leads from its unit to the switch: what enters by one leaves by the other.
        assert there[0] == back[1]
        assert there[1] == back[0]
        found[link.id] = there
    return found


@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_what_crosses_circuits_is_what_the_plan_predicts_and_all_of_it_met_light(namespaces, name, engine):
    topology, circuits = optical_racks()
    plan, mtu = switched(
        topology.with_circuits(circuits), "p4inc-aoi", 4 * ELEMENTS, values=FRAGMENT_VALUES, engine=engine
    )
    with Testbed(topology, plan, name=name, mtu_bytes=mtu, loopback=False) as bed:
        with Ranks(bed) as ranks:
            once = ranks.sum(ELEMENTS)
        switch = bed.optical_switch("oxc")
        counts = [switch.light.count(port) for port in switch.device.crossbar.sides]
    assert once.repetitions == 0
    sent = {**once.link_bytes, **crossed(topology, circuits, once.link_bytes)}
    for link, wanted in link_bytes(plan, ELEMENTS).items():
        for one, other in zip(sent[link], wanted, strict=True):
            assert_crossed(one, other)
    assert sum(count.passed for count in counts) > 0
    assert sum(count.dark for count in counts) == 0


def test_circuits_that_move_away_and_back_by_a_devices_driver_lose_only_what_is_counted_dark(namespaces, name):
    """The sum waits in darkness for as long as it lasts, and is right."""
    topology, circuits = optical_racks()
    plan, mtu = switched(
        topology.with_circuits(circuits), "p4inc-aoi", 4 * ELEMENTS, values=FRAGMENT_VALUES, timeout_s=0.1
    )
    with Testbed(topology, plan, name=name, mtu_bytes=mtu, loopback=False) as bed, Ranks(bed) as ranks:
        ranks.sum(ELEMENTS)
        switch = bed.optical_switch("oxc")
        driver = connect(switch.serve("calient-tl1"))
        owned = list(switch.device.crossbar.sides)
        lit = driver.read().pairs
        apply(driver, [], owned)
        assert switch.device.crossbar.beams == {}
        apply(driver, lit, owned, expected=[])
        wait_for_light(driver, lit)
        dark = sum(switch.light.count(port).dark for port in owned)
        ranks.sum(ELEMENTS)
        assert sum(switch.light.count(port).dark for port in owned) == dark
        driver.close()


def test_darkness_that_nobody_announced_leaves_sums_exact(namespaces, name):
    """All circuits go out and come back, again and again, while a sum is under way."""
    topology, circuits = optical_racks()
    plan, mtu = switched(topology.with_circuits(circuits), "p4inc-aoi", 4 * LARGE, timeout_s=0.1)
    with Testbed(topology, plan, name=name, mtu_bytes=mtu, loopback=False) as bed, Ranks(bed) as ranks:
        switch = bed.optical_switch("oxc")
        driver, owned = connect(switch.serve("emulated")), list(switch.device.crossbar.sides)
        lit = driver.read().pairs
        with ThreadPoolExecutor() as threads:
            under_way = threads.submit(ranks.sum, LARGE)
            while not under_way.done():
                apply(driver, [], owned)
                apply(driver, lit, owned)
                wait_for_light(driver, lit)
                time.sleep(LIT_S)
            assert under_way.result(), "a wrong sum is an error"
        assert sum(switch.light.count(port).dark for port in owned) > 0, "nothing met darkness"
        driver.close()


def test_only_a_plan_says_which_circuits_a_testbed_needs(name):
    topology, circuits = optical_racks()
    plan, mtu = switched(topology.with_circuits(circuits), "p4inc-aoi", 4096)
    assert lit_in(topology, plan.fabric) == circuits
    layout = lay_out(name, topology, plan.fabric, mtu)
    assert {wire.link.id for wire in layout.wires if wire.shaped_at.node == "oxc"} == {
        fibre.link.id for fibre in fibres(topology)
    }
    with pytest.raises(TopologyError, match=r"other links than topology racks, as oxc\.\d+-\d+"):
        lay_out(name, racks(2, hosts_per_rack=2, ports=1), plan.fabric, mtu)
    with pytest.raises(TopologyError, match="only a plan whose switches sum can use"):
        Testbed(topology, loopback=False)
    with pytest.raises(TestbedError, match="no optical switch oxc"):
        Testbed(topology, plan, loopback=False).optical_switch("oxc")


def test_a_plan_for_other_circuits_takes_the_place_of_one_and_comes_back(namespaces, name):
    """First both racks of workers are joined to the server's, then one through the other; and again."""
    topology = racks(2, 1, hosts_per_rack=2, rate_bps=RATE_BPS, ports=2, dark_s=0.02)
    direct = [named(topology, one) for one in ("T1-oxc,T3-oxc", "T2-oxc,T3-oxc-1")]
    through = [named(topology, one) for one in ("T1-oxc,T2-oxc-1", "T2-oxc,T3-oxc")]
    plans = [
        switched(topology.with_circuits(lit), "p4inc-aoi", 4 * ELEMENTS, values=FRAGMENT_VALUES)
        for lit in (direct, through)
    ]
    (first, mtu), (second, _) = plans
    with Testbed(topology, first, name=name, mtu_bytes=mtu, loopback=False, later=[second]) as bed:
        for plan, circuits in ((None, direct), (second, through), (first, direct)):
            if plan is not None:
                bed.deployment.replace(plan)
            with Ranks(bed) as ranks:
                once = ranks.sum(ELEMENTS)
            assert once.repetitions == 0
            sent = {**once.link_bytes, **crossed(topology, circuits, once.link_bytes)}
            for link, wanted in link_bytes(bed.plan, ELEMENTS).items():
                for one, other in zip(sent[link], wanted, strict=True):
                    assert_crossed(one, other)
    ends = [end for ends in bed.network.layout.ends.values() for end in ends]
    assert len({end.address for end in ends}) == len(ends)


def test_a_plan_for_circuits_that_nobody_announced_is_refused():
    topology = racks(2, 1, hosts_per_rack=1, ports=2)
    lit = [named(topology, one) for one in ("T1-oxc,T3-oxc", "T2-oxc,T3-oxc-1")]
    other = [named(topology, one) for one in ("T1-oxc-1,T3-oxc", "T2-oxc,T3-oxc-1")]
    first, second = (switched(topology.with_circuits(one), "p4inc-aoi", 4096)[0] for one in (lit, other))
    with pytest.raises(TestbedError, match="links are not those of this testbed"):
        Testbed(topology, first, loopback=False).network.adapt(second)
