"""Plans of `tests/conformance`, carried out live: by servers and switches in user space, and in the kernel.

A choice of planners, as ending and starting daemons takes a second for each plan; every kind of tree is among them.
"""

from contextlib import ExitStack, contextmanager

import pytest
from tests.capabilities import best_engine, engines
from tests.conformance.test_plans import BYTES, load, made
from tests.testbed.groups import Ranks

from wiresum.errors import TestbedError
from wiresum.plan.assignment.wiring import with_engine
from wiresum.testbed import Testbed

ELEMENTS = BYTES // 4
TOPOLOGIES = {"tree": "xagg", "fabric": "goat:hosts_per_switch=2"}
PLANNERS = {
    "tree": ["direct", "forest", "joint", "krgs-paper"],
    "fabric": ["goat", "ingo", "atp", "switchml", "joint"],
}
EVERYWHERE = {"tree": "direct", "fabric": "goat"}
"""Planners whose plans have a program at every node, so that the testbed makes ports for it."""
SERVERS_IN_A_MESH = "servers sum in this plan, not switches"
"""Links of a network with loops forward by the plan's own tables; trees of servers go where the kernel routes."""


def planned(planner, kind, engine, topology=None):
    topology = topology or TOPOLOGIES[kind]
    if kind == "fabric":
        return with_engine(made(planner, topology, kind), engine)
    return made(planner, topology, kind, engine)


@contextmanager
def network(kind):
    topology = load(TOPOLOGIES[kind]).with_addresses()
    first = planned(EVERYWHERE[kind], kind, best_engine())
    with Testbed(topology, first, mtu_bytes=1500, loopback=False) as bed, Ranks(bed, ELEMENTS) as ranks:
        yield ranks


@pytest.fixture(scope="module")
def networks(namespaces):
    """Each made when it is first asked for, and kept."""
    with ExitStack() as stack:
        there = {}

        def get(kind):
            if kind not in there:
                there[kind] = stack.enter_context(network(kind))
            return there[kind]

        yield get


@pytest.mark.parametrize(("kind", "planner"), [(kind, name) for kind, names in PLANNERS.items() for name in names])
@pytest.mark.parametrize("engine", engines("udp", "xdp"))
def test_live_runners_take_every_plan(networks, kind, planner, engine):
    ranks = networks(kind)
    ranks.join(planned(planner, kind, engine))
    ranks.sum_rightly()
    counters = ranks.leave()
    assert engine in {node["engine"] for node in counters.values()}


def test_trees_of_servers_are_refused_where_packets_go_by_the_plans_tables(networks):
    ranks = networks("fabric")
    with pytest.raises(TestbedError, match=SERVERS_IN_A_MESH):
        ranks.bed.deployment.replace(planned("goat", "tree", "udp", TOPOLOGIES["fabric"]))
