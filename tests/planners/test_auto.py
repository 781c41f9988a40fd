"""The planner that asks the others: the quickest plan, and why."""

import re
from functools import partial

import pytest

from wiresum.errors import PlanError
from wiresum.plan.explanation import explain
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import PLANNERS, plan
from wiresum.planners.auto import QUICK, SEARCHING, auto, quicker_ring_s
from wiresum.predict import predict
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.generators.servers import servers
from wiresum.topology.generators.star import star
from wiresum.topology.model import Link, Node, Topology

SIZE = Job().gradient_bytes
LIMIT = PlanOptions(time_limit_s=60.0)


@pytest.mark.parametrize("topology", [goat(), ingo("ring"), servers(4, 2)])
def test_no_planner_that_was_asked_is_predicted_to_be_quicker(topology):
    made = plan(topology, Job(), LIMIT, "auto")
    seconds = predict(topology, made, SIZE).seconds
    asked = 0
    for name in (*QUICK, *SEARCHING):
        try:
            other = plan(topology, Job(), LIMIT, name)
        except PlanError:
            continue
        asked += 1
        assert seconds <= predict(topology, other, SIZE).seconds * (1 + 1e-6)
    assert f"the quickest of {asked} plans with {seconds:.4g} s predicted for {SIZE / 1e6:g} MB" in made.planner


def test_the_reason_is_in_the_plan():
    words = explain(plan(goat(), Job(), LIMIT, "auto"))
    assert re.search(r"Planned by: auto: \w+, the quickest of \d+ plans", words)
    assert "\n  0.01053 s  xagg" in words
    assert "\n  no plan: direct (the sums must meet in one root, but S1, S2 are all roots)" in words


def test_of_equals_fewer_bytes_on_links_decide():
    """Switch and server are equally quick for one worker, and the switch is nearer."""
    nodes = [Node(name="w", kind="worker"), Node(name="s", kind="switch", aggregation_rate_bps=1e12)]
    nodes.append(Node(name="ps", kind="ps", aggregation_rate_bps=1e12))
    links = [Link(id=name, source=name, target="s", bandwidth_bps=1e9) for name in ("w", "ps")]
    made = plan(Topology(name="pair", nodes=nodes, links=links), Job(), LIMIT, "auto")
    assert [node.name for node in made.nodes] == ["s"]
    assert "s  direct, " in made.planner


def test_without_time_the_quick_planners_answer():
    made = plan(goat(), Job(), PlanOptions(time_limit_s=1e-9), "auto")
    assert "forest, joint, r-ingo, ingo (not asked, as no time was left)" in made.planner


@pytest.mark.parametrize("workers", [2, 4, 7])
def test_nobody_searches_where_the_workers_own_links_are_the_limit(workers):
    made = plan(star(workers), Job(), LIMIT, "auto")
    assert made.planner.startswith("auto: direct, the quickest of 2 plans")
    assert "ingo (not asked, as nothing is quicker)" in made.planner
    searched = plan(star(workers), Job(), LIMIT, "joint")
    assert predict(star(workers), searched, SIZE).seconds >= predict(star(workers), made, SIZE).seconds * (1 - 1e-6)


def test_a_ring_that_is_quicker_is_told_first():
    """Two servers with the links of workers take twice the gradient each; a ring's links take 1.5 times."""
    made = plan(servers(4, 2), Job(), LIMIT, "auto")
    ring_s = quicker_ring_s(servers(4, 2), Job(), predict(servers(4, 2), made, SIZE).seconds)
    assert ring_s is not None
    assert made.planner.startswith(f"auto: a ring without Wiresum is quicker, {ring_s:.4g} s over the same links")
    assert 1.5 * 8 * SIZE / 200e6 < ring_s < 1.05 * 1.5 * 8 * SIZE / 200e6
    best = plan(star(4), Job(), LIMIT, "auto")
    assert quicker_ring_s(star(4), Job(), predict(star(4), best, SIZE).seconds) is None


def test_the_answer_is_ten_lines_at_most():
    for topology in (goat(), ingo("ring"), servers(4, 2), star(4)):
        assert len(plan(topology, Job(), LIMIT, "auto").planner.splitlines()) <= 10


def test_without_any_plan_every_reason_is_told():
    def refuse(name, topology, job, options):
        raise PlanError(f"{name} cannot; do something")

    planners = {name: partial(refuse, name) for name in PLANNERS}
    with pytest.raises(
        PlanError, match="no planner has a plan for topology star: direct: direct cannot; ps: ps cannot"
    ):
        auto(planners, star(2), Job(), PlanOptions())
