"""What failures mean, and what the way to a node shows, without a network of its own."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from wiresum.plan.incarnation import next_incarnation, quiet_incarnation
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.selftest.diagnosis import of_step, of_way
from wiresum.selftest.trial import FULL, JOIN, ONE, WINDOW, Step
from wiresum.selftest.way import Way, packet_bytes, way_to
from wiresum.topology.generators.star import star

PLAN = plan(star(4), Job(), PlanOptions(engine="xdp"))
NODE = PLAN.nodes[0]
FINE = Way("10.99.0.1", 3200, 3010, is_refused=False, is_host_there=True)
SILENT = f"collective 0 timed out: node {NODE.id} at {NODE.address} has been silent for 3s"
UNANSWERED = f"node {NODE.id} at {NODE.address} did not answer within 3s: is wiresum-node running there?"


@pytest.mark.parametrize(
    ("way", "says"),
    [
        (FINE, None),
        (replace(FINE, is_refused=True), "nothing listens at 10.99.0.254:5747; start `wiresum-node --node 0`"),
        (replace(FINE, mtu_bytes=1500), "packets of 3010 bytes do not fit the MTU of 1500 from 10.99.0.1"),
        (replace(FINE, problem="Network is unreachable"), "no way to 10.99.0.254:5747 (Network is unreachable)"),
    ],
)
def test_a_way_is_judged_before_anything_is_sent(way: Way, says: str | None):
    found = of_way(NODE, way)
    assert (found is None) == (says is None)
    assert says is None or says in str(found)


@pytest.mark.parametrize(
    ("step", "problem", "says"),
    [
        (JOIN, UNANSWERED, "takes hellos of this job without an answer"),
        (JOIN, f"node {NODE.id} refused this worker: it holds another plan", "switch: it holds another plan"),
        (JOIN, f"node {NODE.id} refused this worker: a newer run of this job has begun", "a training has the job"),
        (ONE, SILENT, "the peer of the node's interface has no XDP program"),
        (
            ONE,
            f"collective 0: no contribution to fragment 0 from [w0] at node {NODE.id}",
            "packets of 3010 bytes get lost",
        ),
        (FULL, f"collective 0: node {NODE.id} has it all but no result arrived", "the MTU of a bridge or switch"),
        (WINDOW, SILENT, "ethtool -K IF gro off lro off"),
        (WINDOW, "a sum of ones is not 4 everywhere", "wiresum doctor"),
    ],
)
def test_each_failure_has_a_meaning_and_a_remedy(step: str, problem: str, says: str):
    assert says in str(of_step(PLAN, {NODE.id: FINE}, Step(step, 3.0, problem=problem)))


def test_a_host_that_is_not_there_is_told_from_a_daemon_with_another_secret():
    away = replace(FINE, is_host_there=False)
    assert "its host does not answer" in str(of_step(PLAN, {NODE.id: away}, Step(JOIN, 3.0, problem=UNANSWERED)))


def test_user_space_is_not_told_of_veth():
    nodes = [NODE.model_copy(update={"engine": "udp"})]
    in_user_space = PLAN.model_copy(update={"nodes": nodes})
    assert "XDP" not in str(of_step(in_user_space, {NODE.id: FINE}, Step(ONE, 3.0, problem=SILENT)))


def test_the_way_to_a_port_of_this_host_is_seen():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        node = NODE.model_copy(update={"address": f"127.0.0.1:{taken.getsockname()[1]}"})
        way = way_to(PLAN, node)
    assert (way.source, way.is_refused, way.is_host_there, way.problem) == ("127.0.0.1", False, True, "")
    assert way.mtu_bytes > way.needed_bytes == packet_bytes(PLAN, node)
    assert way_to(PLAN, node).is_refused, "the socket is closed"


def test_a_trial_is_older_than_every_training_and_younger_than_the_trial_before():
    microseconds_in_2001 = 10**15
    assert 10**12 < quiet_incarnation() < microseconds_in_2001 < next_incarnation()
