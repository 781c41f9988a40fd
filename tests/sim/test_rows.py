"""Sparse jobs in virtual time: flows against packets, and both against what is counted."""

import numpy as np
import pytest
from tests.cli.forks import wiresum

from wiresum.cli.simulate import load
from wiresum.errors import ScenarioError
from wiresum.planners.row_plans import predicted
from wiresum.sim import ScenarioFile, run
from wiresum.sim.resolve import topology_of
from wiresum.sim.rows import planned_rows

DENSE_BYTES = 100_000
TEXT = """
format = "wiresum-scenario/1"
topology = "star:workers=4,rate=20mbit,servers=1"
fidelity = "{fidelity}"
check_sums = {check}
[rows]
trace = "criteo:scale=0.002,batch=128"
rounds = 3
planner = "{planner}"
"""


@pytest.fixture
def scenario(tmp_path):
    def made(fidelity="packets", planner="tiers", extra=""):
        path = tmp_path / f"{fidelity}-{planner}.toml"
        check = "true" if fidelity == "packets" else "false"
        path.write_text(TEXT.format(fidelity=fidelity, planner=planner, check=check) + extra)
        return ScenarioFile.read(path)

    return made


def into(outcome, node):
    return sum(link["wire_bytes"] for link in outcome.links if link["target"] == node)


@pytest.mark.parametrize("planner", ["tiers", "zebra", "none"])
def test_packets_send_what_flows_say_and_take_a_little_longer(scenario, planner):
    flows, packets = run(scenario("flows", planner), load), run(scenario("packets", planner), load)
    assert len(flows.rounds) == len(packets.rounds) == 3
    assert packets.end["checked_values"] > 0, "whoever pulls a row has the same bits of it"
    for node in ("s0", "w0", "w3"):
        # Acknowledgements, hellos, ends and news go beside rows, last packets are not full, and some come twice.
        assert into(flows, node) < into(packets, node) < 1.5 * into(flows, node), (planner, node)
    slow, fast = (np.median(one.seconds_of("rows")) for one in (packets, flows))
    assert 0.95 * fast < slow


def test_sums_on_the_way_spare_the_server(scenario):
    summed, direct = (run(scenario("packets", planner), load) for planner in ("tiers", "none"))
    assert into(summed, "s0") < 0.7 * into(direct, "s0")
    assert np.median(summed.seconds_of("rows")) < np.median(direct.seconds_of("rows"))


def test_sums_in_a_tree_spare_the_way_between_racks(scenario, monkeypatch):
    racks = "leaf-spine:leaves=2,spines=1,hosts_per_leaf=5,rate=20mbit,uplink_rate=10mbit,programmable=1"
    monkeypatch.setattr("tests.sim.test_rows.TEXT", TEXT.replace("star:workers=4,rate=20mbit,servers=1", racks))
    flows, packets = run(scenario("flows"), load), run(scenario("packets"), load)
    assert packets.end["checked_values"] > 0
    monkeypatch.setattr("wiresum.sim.rows.sums_in_a_tree", lambda *_: False)
    alone = run(scenario("packets"), load)
    assert packets.end["checked_values"] == alone.end["checked_values"], "the same bits of as many rows"
    assert into(packets, "leaf0") < 0.8 * into(alone, "leaf0")
    for node in ("leaf0", "spine0"):
        assert into(flows, node) < into(packets, node) < 1.3 * into(flows, node), node
    slow, fast = (np.median(one.seconds_of("rows")) for one in (alone, packets))
    assert slow > 1.5 * fast


def test_flows_carry_the_rows_that_are_touched(scenario):
    file = scenario("flows", "none")
    planned = planned_rows(file, file.scenario.rows, topology_of(file, load))
    outcome = run(file, load)
    rows = sum(len(keys) for of_round in planned.pushed[:3] for keys in of_round)
    wanted = sum(len(keys) for of_round in planned.pushed[1:] for keys in of_round)
    # 96 bytes of headers a packet: 19 pushed rows of 72 bytes, 177 keys of 8.
    assert into(outcome, "s0") == pytest.approx(rows * (72 + 96 / 19) + wanted * (8 + 96 / 177))


@pytest.mark.parametrize("fidelity", ["flows", "packets"])
def test_a_dense_gradient_shares_links_and_rounds_with_rows(scenario, fidelity):
    extras = ("", f"dense_bytes = {DENSE_BYTES}\n")
    rows, both = (run(scenario(fidelity, "none", extra), load) for extra in extras)
    for node in ("w0", "w3"):
        more = (into(both, node) - into(rows, node)) / (3 * DENSE_BYTES)
        assert 1.0 < more < 1.2, "the sum once a round, with headers and exponents"
    alone_s = 8 * DENSE_BYTES / 20e6
    for together, slower in zip(both.seconds_of("rows"), rows.seconds_of("rows"), strict=True):
        assert together > max(alone_s, slower)
        assert together < 1.3 * (alone_s + slower)


def test_a_dense_gradient_beside_rows_takes_what_flows_packets_and_the_plan_say(scenario):
    files = [scenario(fidelity, extra=f"dense_bytes = {DENSE_BYTES}\n") for fidelity in ("flows", "packets")]
    flows, packets = (run(file, load) for file in files)
    planned = planned_rows(files[1], files[1].scenario.rows, topology_of(files[1], load))
    part = predicted(planned.topology, planned.plan, DENSE_BYTES, planned.job.trace)
    assert list(packets.jobs) == ["rows"], "both parts have their rounds together"
    summed = 4 * 3 * DENSE_BYTES // 4
    assert packets.end["checked_values"] > summed, "every value of the sum is compared, and rows are"
    for node in ("w0", "w3"):
        assert into(flows, node) < into(packets, node) < 1.5 * into(flows, node), node
    fluid, exact = (np.median(one.seconds_of("rows")) for one in (flows, packets))
    assert part.seconds == pytest.approx(fluid, rel=0.1)
    assert 0.95 * fluid < exact < 1.5 * fluid


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ('[[failure]]\nnode = "s0"\nat_s = 0.1\n', "rows are simulated without `failure`"),
        ("[[job]]\nbytes = 400\n", "give one of them"),
    ],
)
def test_what_rows_do_not_know_is_named(scenario, extra, said):
    with pytest.raises(ScenarioError, match=said):
        scenario(extra=extra)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("rows.trace=nothing", "there is no trace nothing"),
        ("rows.servers=3", "topology star has 1, not 3"),
        ("rows.plan=gone.json", "gone.json: cannot be read"),
        ("fidelity=trains", "rows are simulated as packets or flows"),
    ],
)
def test_a_bad_scenario_names_the_line(scenario, change, said):
    done = wiresum("simulate", str(scenario("flows").path), "--set", change)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
