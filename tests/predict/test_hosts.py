"""Profiles of hosts: the fit, and what they say of a plan."""

import json
import math

import pytest
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.errors import PlanError
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.predict import predict
from wiresum.predict.hosts import Cost, HostProfile, fit, host_load
from wiresum.topology.generators.star import star

SIZE = 25_000_000


def profile(packet_s: float, byte_s: float = 0.0) -> HostProfile:
    one = Cost(packet_s=packet_s, byte_s=byte_s)
    twice = Cost(packet_s=2 * packet_s, byte_s=2 * byte_s)
    return HostProfile(machine="any", engine="xdp", transport="udp", thread=one, worker=twice, node=one)


def test_two_sizes_give_both_parts() -> None:
    known = Cost(packet_s=2e-6, byte_s=3e-10)
    costs = {payload: known.seconds(1e9 / payload, 1e9) for payload in (1408, 2944)}
    found = fit(costs)
    assert found.packet_s == pytest.approx(known.packet_s)
    assert found.byte_s == pytest.approx(known.byte_s)


@pytest.mark.parametrize("costs", [{1408: 1.0, 2944: 1.5}, {1408: 3.0, 2944: 1.0}])
def test_no_part_is_below_zero_and_large_packets_cost_what_was_measured(costs: dict[int, float]) -> None:
    found = fit(costs)
    assert min(found.packet_s, found.byte_s) == 0
    assert found.seconds(1e9 / 2944, 1e9) == pytest.approx(costs[2944])


def test_the_slower_of_links_and_processor_counts() -> None:
    topology = star(4, 500e6)
    placed = plan(topology, Job())
    links = predict(topology, placed, SIZE)
    packets = math.ceil(SIZE / placed.job.payload_bytes)
    idle, busy = (host_load(placed, SIZE, profile(cost), links) for cost in (1e-6, 1e-3))
    assert (idle.bottleneck, idle.seconds) == ("links", links.seconds)
    assert (busy.bottleneck, busy.seconds) == ("processor", pytest.approx(packets * 1e-3))


def test_from_its_limit_on_a_link_is_not_what_holds_it_up() -> None:
    # Slow enough that the limit is below what a node of the model adds.
    slow = profile(2e-5)
    placed = plan(star(2, 1e9), Job())
    load = host_load(placed, SIZE, slow, predict(star(2, 1e9), placed, SIZE))
    for factor, expected in ((0.9, "links"), (1.1, "processor")):
        rate = factor * load.limit_bps
        at = predict(star(2, rate), plan(star(2, rate), Job()), SIZE)
        assert host_load(placed, SIZE, slow, at).bottleneck == expected


def test_cores_grow_with_the_rate() -> None:
    placed = plan(star(2, 1e9), Job())
    load = host_load(placed, SIZE, profile(2e-6), predict(star(2, 1e9), placed, SIZE))
    worker, node = load.cores[10e9]
    assert worker == pytest.approx(2 * node)
    assert load.cores[400e9] == pytest.approx((40 * worker, 40 * node))
    # One core of the thread is busy at the rate that it limits.
    assert 10e9 / load.limit_bps == pytest.approx(worker / 2)


def test_threads_share_the_work_and_are_as_many_as_a_link_wants() -> None:
    of_one, of_four = (plan(star(2, 1e9), Job(threads=threads)) for threads in (1, 4))
    links = predict(star(2, 1e9), of_one, SIZE)
    one, four = (host_load(placed, SIZE, profile(2e-6), links) for placed in (of_one, of_four))
    assert four.thread_seconds == pytest.approx(one.thread_seconds / 4)
    assert four.limit_bps == pytest.approx(4 * one.limit_bps)
    assert four.cores == one.cores
    assert all((count - 1) * one.limit_bps < rate <= count * one.limit_bps for rate, count in one.threads.items())


def test_the_command_says_which_it_is(tmp_path) -> None:
    topology, file, hosts = tmp_path / "topology.json", tmp_path / "plan.json", tmp_path / "hosts.json"
    network = star(4, 500e6)
    network.write(topology)
    plan(network, Job()).write(file)
    profile(1e-3).write(hosts)
    arguments = ["predict", str(file), "--topology", str(topology), "--hosts", str(hosts)]
    told = CliRunner().invoke(app, [*arguments, "--json"])
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)["hosts"]
    assert found["bottleneck"] == "processor"
    assert found["seconds"] > found["links_seconds"]
    words = CliRunner().invoke(app, arguments)
    assert "the processor holds it up" in words.stdout.replace("\n", " ")


def test_a_profile_of_another_kind_is_refused(tmp_path) -> None:
    with pytest.raises(PlanError, match="thread: is missing"):
        HostProfile.parse('{"machine": "x", "engine": "xdp", "transport": "udp"}')
