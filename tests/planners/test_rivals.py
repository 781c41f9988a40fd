"""Planners that others are compared with: what they place."""

import numpy as np
import pytest

from wiresum.plan.job import Job
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.planners import assign, plan
from wiresum.predict import predict
from wiresum.predict.cost import cost_of
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.generators.servers import servers
from wiresum.topology.model import Link, Node, Topology


def names(made) -> list[str]:
    return [made.instance.name(int(aggregator)) for aggregator in made.target[:, 0]]


@pytest.mark.parametrize("planner", ["atp", "esa", "switchml"])
def test_racks_sum_then_the_switch_above_them(planner):
    """InGo's star: one sum leaves each rack, and one reaches the server."""
    made = assign(ingo("star"), Job(), planner=planner)
    assert names(made) == ["S2"] * 3 + ["S3"] * 3 + ["S4"] * 4
    cost = cost_of(made)
    assert cost.server_ingress_bytes == made.instance.model_bytes
    assert cost.sending_rate_bps == 10e9


def test_atp_sums_only_where_gradients_pass():
    """Aggregators beside the way are not used, however near."""
    for seed in range(5):
        made = assign(fat_tree(4, programmable=0.4, seed=seed, memory_bytes=None), Job(), planner="atp")
        instance = made.instance
        hops = instance.hops.astype(int)
        for worker, target in enumerate(made.target[:, 0]):
            assert hops[worker, target] + instance.hops_to_server[target] == hops[worker, 0]
            on_the_way = hops[worker] + instance.hops_to_server == hops[worker, 0]
            assert hops[worker, target] == min(hops[worker][on_the_way])


def test_atp_as_goat_evaluates_it_keeps_its_first_sub_models():
    """4 of 16 sub-models of 15 MB fit 60 MB; the server gets 12 from each worker and sums of 4."""
    topology = leaf_spine(10, 10, 5, programmable=1.0, memory_bytes=60_000_000)
    job = Job(sub_models=equal_parts("m", 240_000_000, 16))
    made = assign(topology, job, planner="atp-static")
    assert (made.target[:, :4] != 0).all()
    assert (made.target[:, 4:] == 0).all()
    racks = len(set(names(made)))
    assert cost_of(made, predict=False).server_ingress_bytes == (49 * 12 + racks * 4) * 15_000_000


def test_geryon_sends_every_gradient_to_the_server():
    """GOAT's Exp. 3: 16 workers × 44 MB are 704 MB."""
    topology = goat(8)
    job = Job(gradient_bytes=44_000_000)
    made = assign(topology, job, planner="geryon")
    cost = cost_of(made)
    assert cost.server_ingress_bytes == 16 * 44_000_000
    assert cost.in_network_bytes == 0


def test_geryon_takes_one_path_where_ps_shares_all():
    topology = fat_tree(4, programmable=0.0)
    one, all_paths = (cost_of(assign(topology, Job(), planner=name), predict=False) for name in ("geryon", "ps"))
    assert one.total_bytes == pytest.approx(all_paths.total_bytes)
    assert one.sending_rate_bps <= all_paths.sending_rate_bps
    assert np.isin(one.traffic.arc_bytes / Job().gradient_bytes, np.arange(16)).all()


@pytest.mark.parametrize(("workers", "count"), [(4, 1), (4, 2), (2, 4)])
def test_byteps_takes_the_time_of_the_busier_side(workers, count):
    """max(D/B_w, n·D/(m·B_s)), headers aside."""
    size, rate_bps = 1_000_000_000, 100e6
    topology = servers(workers, count, rate_bps)
    made = plan(topology, Job(gradient_bytes=size, codec="fixed:1e8"), planner="byteps")
    expected = size * 8 / rate_bps * max(1, workers / count)
    assert predict(topology, made, size).seconds == pytest.approx(expected, rel=0.04)


def one_switch(workers: int, adding_bps: float, server_bps: float) -> Topology:
    nodes = [Node(name="s", kind="switch", aggregation_rate_bps=adding_bps)]
    nodes += [Node(name=f"w{rank}", kind="worker") for rank in range(workers)]
    nodes.append(Node(name="ps", kind="ps", aggregation_rate_bps=server_bps))
    links = [Link(id=node.name, source=node.name, target="s") for node in nodes[1:]]
    return Topology(name="one", nodes=nodes, links=links)


def test_grid_knows_what_switches_and_server_take_in():
    """4 workers, C = 8, N = 10 Gbit/s: 2 through the switch and (10 − 2)/4 directly."""
    made = assign(one_switch(4, 8e9, 10e9), Job(), planner="grid")
    assert Job().gradient_bytes * 8 / made.solution.value == pytest.approx(4e9, rel=1e-5)


def test_grid_draws_by_rates_and_repeats():
    topology = one_switch(64, 128e9, 130e9)
    first, again = (assign(topology, Job(), PlanOptions(seed=3), planner="grid") for _ in range(2))
    assert (first.target == again.target).all()
    # 2 through the switch and (130 − 2)/64 directly: half of the workers each way, within five standard deviations.
    assert abs(first.target[:, 0].sum() - 32) <= 20


def test_grid_knows_no_links():
    topology = ingo("star", rate_bps=10e9)
    slower = ingo("star", rate_bps=1e9)
    values = [assign(one, Job(), planner="grid").solution.value for one in (topology, slower)]
    assert values[0] == pytest.approx(values[1])
