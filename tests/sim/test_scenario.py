"""Scenario files: what they may say, and how they say what is wrong."""

import json

import pytest

from wiresum import wire
from wiresum.errors import ScenarioError, TopologyError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.sim import ScenarioFile
from wiresum.sim.resolve import resolve
from wiresum.sim.source import lines_of
from wiresum.topology.generators import TOPOLOGIES
from wiresum.topology.generators.star import star
from wiresum.topology.model import Node

HEAD = 'format = "wiresum-scenario/1"\ntopology = "star"\n'
JOB = "[[job]]\nbytes = 4_000\n"
TRAINS = HEAD + 'fidelity = "trains"\n' + JOB + "window = 8\n[job.program]\nslots = 64\n"


def islands():
    """A star, and a switch that nothing links to it."""
    connected = star()
    return connected.model_copy(update={"nodes": [*connected.nodes, Node(name="s9", kind="switch")]})


def load(name):
    if name == "islands":
        return islands()
    if name not in TOPOLOGIES:
        raise TopologyError(f"there is no topology {name}")
    return TOPOLOGIES[name]()


def written(tmp_path, text):
    path = tmp_path / "it.toml"
    path.write_text(text)
    return path


def refusal(tmp_path, text):
    with pytest.raises(ScenarioError) as refused:
        resolve(ScenarioFile.read(written(tmp_path, text)), load)
    return str(refused.value)


def resolved(tmp_path, text, **changes):
    return json.loads(resolve(ScenarioFile.read(written(tmp_path, text), changes), load))


FLOWS = HEAD + 'fidelity = "flows"\n' + JOB
BAD = {
    "flows that lose": (FLOWS + "[links]\nloss = 0.001\n", ":7: loss: flows have no packets"),
    "flows in disorder": (FLOWS + '[[link]]\nid = "w0"\nreordering = 0.1\n', ":8: reordering: flows"),
    "unknown key": (HEAD + "speed = 3\n" + JOB, ":3: speed: is not a known field; remove it"),
    "unknown key of a job": (HEAD + JOB + "size = 3\n", ":5: job[0].size: is not a known field"),
    "second job": (HEAD + JOB + JOB + "rounds = 0\n", ":7: job[1].rounds:"),
    "missing": (HEAD + "[[job]]\n", ":3: job[0].bytes: is missing; add it"),
    "not TOML": (HEAD + "links = {\n", "not valid TOML"),
    "inline table": (HEAD + JOB + 'compute = { kind = "normal", mean_s = -1.0, deviation_s = 0 }\n', ":5: job[0]."),
    "no topology": (HEAD.replace('"star"', '"ring"') + JOB, ":2: topology:"),
    "no planner": (HEAD + JOB + 'planner = "best"\n', ":5: job job: there is no planner best"),
    "no link": (HEAD + '[[link]]\nid = "w9"\nloss = 0.1\n' + JOB, ":4: id: there is no link w9"),
    "no worker": (HEAD + JOB + '[job.starts]\nw9 = { kind = "constant" }\n', ":6: job job: there is no worker"),
    "no node": (HEAD + JOB + '[[failure]]\nnode = "w9"\nat_s = 1.0\n', ":6: node: w9, which the topology does not"),
    "nothing fails": (HEAD + JOB + "[[failure]]\nat_s = 1.0\n", ":5: a failure is that of a `link` or of a `node`"),
    "names twice": (HEAD + JOB + JOB, ":5: two jobs are called job"),
    "zero rate": (
        HEAD + JOB + '[[background]]\nsource = "w0"\ntarget = "w1"\nrate_bps = 0\nuntil_s = 1.0\n',
        ":8: background[0].",
    ),
    "background of nobody": (
        HEAD.replace("star", "islands") + JOB
        + '[[background]]\nsource = "w0"\ntarget = "s9"\nrate_bps = 1e6\nuntil_s = 1.0\n',
        ":7: target: w0 does not reach s9",
    ),
    "program without trains": (
        HEAD + JOB + '[job.program]\npolicy = "pool"\nserver = "switch"\nslots = 64\n',
        ':5: job job: fidelity = "packets" takes no [job.program]',
    ),
    "trains without program": (
        HEAD + 'fidelity = "trains"\n' + JOB,
        ':4: job job: fidelity = "trains" needs [job.program]',
    ),
    "no such server": (TRAINS + 'policy = "pool"\nserver = "ps"\n', ":10: ps is not in the topology"),
    "server that is a switch": (TRAINS + 'policy = "hash"\nserver = "switch"\n', ":10: server: hash needs a"),
    "top that is a worker": (TRAINS + 'policy = "pool"\nserver = "w0"\n', ":10: server: pool sums at switches"),
    "node that nobody addresses": (
        TRAINS + 'policy = "hash"\nserver = "w0"\nnode = "switch"\n',
        ":9: policy hash: the policies",
    ),
    "copies that the plan has not": (HEAD + JOB + 'collective = "pair"\n', ":5: job job: pair goes through Gloo"),
    "trains of copies": (TRAINS.replace("window", 'collective = "reduce"\nwindow'), ":6: job job: trains carry all-"),
    "copies up only": (FLOWS + 'collective = "reduce"\nupload_only = true\n', ":7: upload_only: only all-reduces"),
    "steps that the plan has not": (HEAD + JOB + 'collective = "fsdp"\n', ":5: job job: fsdp goes through Gloo"),
    "blocks of nothing": (HEAD + JOB + "blocks = 4\n", ":3: job[0]: `blocks` is for the collective `fsdp`, not for"),
    "trains of steps": (TRAINS.replace("window", 'collective = "fsdp"\nwindow'), ":6: job job: trains carry all-"),
    "no collective": (HEAD + JOB + 'collective = "gossip"\n', ":5: job[0].collective:"),
    "packets up only": (HEAD + JOB + "upload_only = true\n", ":5: upload_only: packets bring results down"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), BAD.values(), ids=BAD)
def test_a_bad_scenario_names_the_line(tmp_path, text, expected):
    message = refusal(tmp_path, text)
    assert expected in message
    assert "it.toml" in message


@pytest.mark.parametrize("field", ["bytes", "rounds", "window", "slots", "parts"])
@pytest.mark.parametrize("number", [1 << 41, 1 << 64, 10**400])
def test_numbers_that_the_engine_cannot_count_are_named(tmp_path, field, number):
    job = JOB if field != "bytes" else "[[job]]\n"
    message = refusal(tmp_path, f"{HEAD}{job}{field} = {number}\n")
    assert f"job[0].{field}:" in message


def test_flows_over_a_lossy_topology_are_refused(tmp_path):
    def lossy(name):
        return load(name).with_loss(0.01)

    file = ScenarioFile.read(written(tmp_path, FLOWS))
    with pytest.raises(ScenarioError, match=r"link w0 loses packets, and flows have none; set `fidelity` to packets"):
        resolve(file, lossy)
    assert resolve(ScenarioFile.read(written(tmp_path, FLOWS + "[links]\nloss = 0.0\n")), lossy)


def test_a_plan_for_another_topology_is_refused(tmp_path):
    made = plan(star(6), Job())
    made.write(tmp_path / "six.json")
    message = refusal(tmp_path, HEAD + JOB + 'plan = "six.json"\n')
    assert ":5: " in message
    assert "w4, which the topology does not have" in message


def test_a_plan_with_other_addresses_is_refused(tmp_path):
    made = plan(star(4), Job()).model_dump(mode="json", exclude_none=True)
    made["nodes"][0]["address"] = "10.1.2.3:5747"
    (tmp_path / "moved.json").write_text(AggregationPlan.build(**made).to_json())
    assert "it is for another topology" in refusal(tmp_path, HEAD + JOB + 'plan = "moved.json"\n')


def test_too_little_memory_is_refused(tmp_path):
    def small(_):
        topology = star(4)
        switch = topology.node("switch").model_copy(update={"memory_bytes": 1000})
        return topology.model_copy(update={"nodes": [*topology.workers, switch]})

    with pytest.raises(ScenarioError, match=r":3: .*switch has 1000 bytes for slots"):
        resolve(ScenarioFile.read(written(tmp_path, HEAD + JOB)), small)


def test_changes_reach_every_job(tmp_path):
    text = HEAD + JOB + JOB.replace("4_000", '4_000\nname = "two"')
    found = resolved(tmp_path, text, **{"job.*.bytes": 8000, "job.1.rounds": 3, "links.loss": 0.25})
    assert [(job["bytes"], job["rounds"]) for job in found["jobs"]] == [(8000, 1), (8000, 3)]
    assert found["links"][0]["backward"]["loss"] == 0.25


def test_one_link_may_differ(tmp_path):
    text = HEAD + '[links]\nloss = 0.1\n[[link]]\nid = "w1"\nloss = 0.2\n' + JOB
    links = {link["id"]: link for link in resolved(tmp_path, text)["links"]}
    assert (links["w0"]["forward"]["loss"], links["w1"]["forward"]["loss"]) == (0.1, 0.2)


def test_lines_of_nested_tables():
    text = "a = 1\n[[job]]\nb = 2\n[job.starts]\nw0 = 3\n[[job]]\n[job.starts]\nw1 = 4\n"
    lines = lines_of(text)
    assert lines["job", 0, "starts", "w0"] == 5
    assert lines["job", 1, "starts", "w1"] == 8
    assert lines["a",] == 1


def test_trains_know_disturbances_and_how_fast_nodes_add(tmp_path):
    disturbed = (
        TRAINS + 'policy = "hash"\nserver = "w3"\n'
        + '[[background]]\nsource = "w0"\ntarget = "w1"\nrate_bps = 1e6\nuntil_s = 1.0\n'
        + '[[failure]]\nnode = "switch"\nat_s = 1.0\n'
    )  # fmt: skip
    found = resolved(tmp_path, disturbed)
    assert found["background"][0]["rate_bps"] == 1e6
    assert len(found["failures"]) == 1
    program = found["programs"][0]
    rate_bps = star().node("switch").available_rate_bps
    adding_bps = next(site["adding_bps"] for site in found["sites"] if site["name"] == "switch")
    # What they add is bytes of gradient; a packet's headers come on top.
    headers = wire.ETHERNET_LEN + wire.IPV4_LEN + wire.UDP_LEN + wire.HEADER_LEN + wire.SWITCH_HEADER_LEN
    assert adding_bps == pytest.approx(rate_bps * program["packet_bytes"] / (program["packet_bytes"] - headers))
