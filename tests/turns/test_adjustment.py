"""Schedules after failures: what is left can be carried out, who runs goes on as before, and changes are named."""

import json
from functools import cache

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from tests.turns.networks import network, star, three_jobs, tree_jobs, turns_of, workload
from tests.turns.test_plans import random_jobs
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.errors import ScheduleError
from wiresum.plan.schedule import Schedule
from wiresum.plan.shared import SharedNetwork
from wiresum.topology.circuits import fibres
from wiresum.turns.adjustment import adjust_schedule
from wiresum.turns.driver import plans_of


def without(topology, *gone):
    """The topology without these links, nodes, and the links of these nodes; ports keep their names."""
    links = [link for link in topology.links if not {link.id, link.source, link.target} & set(gone)]
    there = {link.id for link in links}

    def left(node):
        if node.oxc is None:
            return node
        ports = [port.model_copy(update={"link": port.link if port.link in there else None}) for port in node.oxc.ports]
        return node.model_copy(update={"oxc": node.oxc.model_copy(update={"ports": ports})})

    return topology.model_copy(
        update={"nodes": [left(node) for node in topology.nodes if node.name not in gone], "links": links}
    )


def windows(schedule, shift_s=0.0):
    """First begin and last end of each job."""
    found = {}
    for interval in schedule.intervals:
        for job in map(int, interval.plans):
            begin_s, _ = found.get(job, (interval.from_s + shift_s, 0.0))
            found[job] = (begin_s, interval.until_s + shift_s)
    return found


@cache
def scheduled(scheduler, seed, *, trees):
    """Random jobs in four units, and their schedule."""
    topology = network(4, hosts=8, ports=3, places=2, servers=2)
    return topology, turns_of(topology, random_jobs(topology, seed), scheduler, trees=trees)


@pytest.mark.parametrize(("scheduler", "trees"), [("turns", False), ("turns", True), ("events", False)])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_what_is_left_of_a_schedule_can_be_carried_out(scheduler, trees, data):
    """Ports are used once, every way is lit, no slot has two owners; who needs nothing that is gone is as before."""
    topology, before = scheduled(scheduler, data.draw(st.integers(0, 5)), trees=trees)
    names = [fibre.link.id for fibre in fibres(topology)] + ["u2", "ps1", "w3"]
    gone = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True))
    at_s = data.draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    now = without(topology, *gone)
    assume(max(until_s for _, until_s in windows(before).values()) > at_s)
    try:
        after = adjust_schedule(before, now, at_s)
    except ScheduleError as refusal:
        event(str(refusal)[:20])
        return
    plans, kept, was, runs = plans_of(before), plans_of(after.schedule), windows(before), windows(after.schedule, at_s)
    left = {job for job, (_, until_s) in was.items() if until_s > at_s + 1e-6}
    assert set(kept) | set(after.given_up) == left
    assert not set(kept) & set(after.given_up)
    for job, plan in kept.items():
        if plan == plans[job]:
            assert runs[job] == pytest.approx((max(was[job][0], at_s), was[job][1]))
        else:
            assert was[job][0] >= at_s, f"job {job} had begun"
            assert any(line.startswith(f"job {job} takes") for line in after.reasons)
    network_now = SharedNetwork.of(after.schedule, now)
    there = {node.name for node in now.nodes}
    for interval in after.schedule.intervals:
        ends = [link for circuit in interval.circuits for link in circuit.links]
        assert len(ends) == len(set(ends))
        lit = {network_now.name(circuit) for circuit in interval.circuits}
        dark = {link.id for link in topology.links} - {link.id for link in now.links}
        taken = set()
        for plan in interval.plans.values():
            links = {link.id for link in plan.fabric.links}
            assert {name for name in links if name.startswith("oxc.")} <= lit
            assert not links & dark
            assert {node.name for node in plan.nodes} <= there
            slots = {
                (place.node, place.base + slot)
                for stream in plan.streams
                for place in stream.places
                for slot in range(place.slots or 0)
            }
            assert not slots & taken
            taken |= slots


def test_a_job_takes_other_ports_at_its_time_where_they_are_free():
    topology = network(2, hosts=1, ports=2)
    before = turns_of(topology, workload(star("far", {"u0": 1, "u1": 1}, "u1", 400_000)))
    (used,) = before.intervals[0].circuits
    after = adjust_schedule(before, without(topology, used.links[0]))
    (now,) = after.schedule.intervals[0].circuits
    assert used.links[0] not in now.links
    assert windows(after.schedule) == windows(before)
    assert "at its time" in after.reasons[0]
    assert "as addresses on it" in after.reasons[1], "nobody has used these two ports together so far"


def test_a_job_waits_for_ports_that_others_have():
    """Job `second` has to take the port that `first` has until its end."""
    topology = network(2, hosts=2, ports=2, servers=2)
    jobs = workload(*(star(name, {"u0": 1}, "u1", 1_500_000) for name in ("first", "second")))
    before = turns_of(topology, jobs, sums=False)
    names = {job: {link.id for link in plan.fabric.links} for job, plan in plans_of(before).items()}
    assert names[1] != names[2], "both use one circuit"
    (own,) = [name for name in names[2] if name.startswith("oxc.")]
    shared = SharedNetwork.of(before, topology)
    lost = next(one for interval in before.intervals for one in interval.circuits if shared.name(one) == own).links[0]
    after = adjust_schedule(before, without(topology, lost))
    spans = windows(after.schedule)
    assert spans[2][0] == pytest.approx(spans[1][1])
    assert "s later" in after.reasons[0]


def test_who_has_begun_keeps_its_plan_or_is_given_up():
    topology, before = network(), turns_of(network(), three_jobs())
    after = adjust_schedule(before, without(topology, "u2-1"), at_s=0.1)
    assert after.given_up == [3]
    assert plans_of(after.schedule)[1] == plans_of(before)[1]
    begun = adjust_schedule(before, without(topology, "u0-1"), at_s=0.1)
    assert begun.given_up == [2]
    assert "it has begun, so its ranks cannot take another plan" in begun.reasons[0]


def test_what_cannot_be_adjusted_is_named():
    topology, before = network(), turns_of(network(), three_jobs())
    with pytest.raises(ScheduleError, match="no job has a turn after 99 s"):
        adjust_schedule(before, topology, 99.0)
    with pytest.raises(ScheduleError, match=r"no job can go on: job 1 .*w0.* gone"):
        adjust_schedule(before, without(topology, "w0", "w1", "w2", "w3", "w4", "w5"))
    unnamed = [node.model_copy(update={"oxc": node.oxc.model_copy(update={"ports": []})}) if node.oxc else node
               for node in topology.nodes]  # fmt: skip
    with pytest.raises(ScheduleError, match=r"oxc names no ports.*list its `ports`"):
        adjust_schedule(before, topology.model_copy(update={"nodes": unnamed}))


def test_the_command_writes_a_schedule_and_says_what_changed(tmp_path):
    topology, before = network(4, ports=2, places=2), turns_of(network(4, ports=2, places=2), tree_jobs())
    before.write(tmp_path / "schedule.json")
    now = without(topology, "u0-1")
    (tmp_path / "now.json").write_text(now.model_dump_json(exclude_none=True))
    line = ["adjust", tmp_path / "schedule.json", "--topology", tmp_path / "now.json", "--at", "100ms", "--json"]
    done = CliRunner().invoke(app, list(map(str, [*line, "-o", tmp_path / "next.json"])))
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["changed"]
    assert any("oxc.1-3 is gone" in reason for reason in said["reasons"])
    found = Schedule.read(tmp_path / "next.json")
    secrets = {job: plan.job.secret for job, plan in plans_of(found).items()}
    assert secrets == {job: plan.job.secret for job, plan in plans_of(before).items()}
    assert CliRunner().invoke(app, list(map(str, [*line, "--against", "auto"]))).exit_code == 2
