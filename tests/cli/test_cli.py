"""The command line as its users meet it: in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.cli.forks import wiresum

from wiresum.cli.testbed_summary import describe
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.reproduce import PAPERS
from wiresum.topology.generators import TOPOLOGIES
from wiresum.topology.model import Link, Node, Topology

WAIT_S = 60
"""A bound; each command takes about a second."""
COMMANDS = [
    [],
    ["testbed"],
    ["testbed", "run"],
    ["testbed", "up"],
    ["testbed", "down"],
    ["testbed", "list"],
    ["plan"],
    ["predict"],
    ["compare"],
    ["explain"],
    ["adjust"],
]
COMMANDS += [["topology"], ["topology", "star"], ["topology", "xagg"], ["schema"], ["doctor"], ["version"]]
RUN = ["testbed", "run", "star", "--workers", "2", "--backend", "gloo", "--loopback"]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(command):
    done = wiresum(*command, "--help")
    assert done.returncode == 0, done.stderr
    is_group = command in ([], ["testbed"], ["topology"])
    assert is_group or "Example" in done.stdout


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_printed_topology_is_one_that_can_be_read(name, tmp_path):
    done = wiresum("topology", name)
    assert Topology.parse(done.stdout) == TOPOLOGIES[name]()
    file = tmp_path / "topology.json"
    file.write_text(done.stdout)
    # Data centres hold more workers than a tree of one level sums; light has to be planned for before anything else.
    plannable = name not in {"fat-tree", "optical"}
    planner = "ps" if name in {"goat", "ingo", "leaf-spine", "racks"} else "direct"
    if plannable:
        planned = AggregationPlan.parse(wiresum("plan", str(file), "--engine", "udp", "--planner", planner).stdout)
        assert planned.planner.partition(":")[0] == planner


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["topology", "xagg", "--workers", "3"], "No such option"),
        (["plan", "xagg", "--workers", "3"], "the topology xagg takes no --workers"),
        (["plan", "fat-tree:k=x", "--planner", "ps"], "k: x is not a whole number"),
        (["plan", "fat-tree:k", "--planner", "ps"], "k has no value; write fat-tree:k=VALUE"),
        (["plan", "ingo:shape=tree", "--planner", "ps"], "star, ring, mesh"),
        (["plan", "stragglers:rate=none"], "rate: it cannot be `none`"),
    ],
)
def test_bad_options_of_generators_are_named(arguments, named):
    done = wiresum(*arguments)
    assert done.returncode == 2
    assert named in " ".join(done.stderr.split())


def test_a_generators_options_may_stand_in_its_name():
    written = wiresum("plan", "leaf-spine:leaves=2,spines=1,hosts_per_leaf=3,rate=1gbit", "--planner", "ps", "--json")
    plan = AggregationPlan.parse(written.stdout)
    assert (len(plan.workers), plan.workers[0].egress_bps) == (5, 1_000_000_000)


def test_topologies_travel_between_formats(tmp_path):
    file = tmp_path / "fabric.json"
    file.write_text(
        wiresum("topology", "export", "leaf-spine:leaves=2,spines=1,hosts_per_leaf=2", "-f", "node-link").stdout
    )
    again = wiresum("topology", "import", str(file), "-f", "node-link", "--programmable", "1", "--memory", "9MB")
    switches = [node for node in Topology.parse(again.stdout).nodes if node.kind == "switch"]
    assert {node.memory_bytes for node in switches} == {9_000_000}
    refused = wiresum("topology", "export", "star", "-f", "dot")
    assert (refused.returncode, "there is no exporter dot" in refused.stderr) == (2, True)


def test_planners_are_compared():
    done = wiresum("compare", "-p", "ps,direct", "-t", "goat", "--model", "3MB", "--parts", "3", "--json")
    ps, direct = json.loads(done.stdout)
    assert ps["cost"]["server_ingress_bytes"] == 8 * 3_000_000
    assert direct["cost"] is None
    shown = wiresum("compare", "-p", "ps,direct", "-t", "goat", "--model", "resnet18", "-n", "4").stdout
    assert "direct: the sums must meet in one root" in shown
    assert "93.5 MB" not in shown
    assert "187 MB" in shown  # four workers' ResNet-18 at the server


ROWS = ("compare", "-t", "star:workers=4,servers=1", "--trace", "criteo:scale=0.01,batch=64")


def test_planners_of_rows_are_compared_on_one_count():
    done = wiresum(*ROWS, "-p", "tiers,zebra", "--json")
    tiers, zebra = (each["part"] for each in json.loads(done.stdout))
    assert tiers["seconds"] < zebra["seconds"]
    assert (tiers["planner"].split(":")[0], zebra["replicated_rows"], tiers["dense_bytes"]) == ("tiers", 0, 0)
    # Push/pull takes as long whoever is compared with it.
    took = [part["seconds"] * part["gains"]["push_pull"] for part in (tiers, zebra)]
    assert took[0] == pytest.approx(took[1])
    shown = wiresum(*ROWS, "-p", "zebra,tiers", "--replicas", "3").stdout
    assert "zebra: replicas: the planner zebra keeps no rows at workers" in shown


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("-p", "tiers,ps"), "ps is no planner of rows; choose from tiers, zebra"),
        (("-p", "tiers", "-n", "2"), "--workers: planners of rows do not heed it"),
        (("-p", "ps,krgs"), "--trace: only tiers and zebra place rows"),
    ],
)
def test_what_planners_of_rows_cannot_heed_is_refused(more, says):
    refused = wiresum(*ROWS, *more)
    assert refused.returncode == 2
    assert says in " ".join(refused.stderr.replace("│", " ").split())


def test_a_plan_is_explained(tmp_path):
    file = tmp_path / "plan.json"
    written = wiresum("plan", "goat", "--planner", "ps", "--model", "resnet18", "--split", "8MB", "-o", str(file))
    assert written.returncode == 0, written.stderr
    assert "ps is the root and adds w0, w1" in wiresum("explain", str(file)).stdout


def test_options_reach_topology_and_plan():
    done = wiresum(
        "plan", "star", "-n", "3", "--policy", "cache", "--lanes", "int16-le", "--gradient", "1MB", "--mtu", "1500"
    )
    made = AggregationPlan.parse(done.stdout)
    assert len(made.workers) == 3
    assert made.streams[1].policy == "cache"
    assert (made.job.lanes, made.job.values_per_packet) == ("int16-le", 352)
    assert made.streams[1].slots == 512


def test_a_plan_goes_to_a_file(tmp_path):
    done = wiresum("plan", "xagg", "-o", "plan.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert len(AggregationPlan.read(tmp_path / "plan.json").nodes) == 3


def test_a_simulation_names_parallel_links_and_says_how_many_it_shows(tmp_path):
    links = [Link(id=f"w{n}", source=f"w{n}", target="tor", bandwidth_bps=1e9) for n in range(3)]
    links += [Link(id=f"p{n}", source="ps", target="tor", bandwidth_bps=1e9) for n in range(2)]
    nodes = [Node(name=f"w{n}", kind="worker") for n in range(3)]
    nodes += [Node(name="ps", kind="ps", aggregation_rate_bps=8e9), Node(name="tor", kind="switch")]
    Topology(name="two-ports", nodes=nodes, links=links).write(tmp_path / "net.json")
    job = '[[job]]\nbytes = 1000000\nplanner = "direct"\n'
    (tmp_path / "s.toml").write_text(f'format = "wiresum-scenario/1"\nfidelity = "flows"\ntopology = "net.json"\n{job}')
    shown = wiresum("simulate", "s.toml", cwd=tmp_path).stdout
    assert re.search(r" p[01]: ps → tor ", shown)
    assert " w0 → tor" in shown
    assert "the busiest 8 of 10 directions" in shown


def test_a_topology_that_is_taken_for_a_scenario_is_told_its_option():
    done = wiresum("compare", "net.json", "--planners", "ring")
    assert done.returncode == 2
    assert "--topology net.json" in " ".join(done.stderr.split())


def test_the_command_is_installed():
    command = [Path(sys.executable).with_name("wiresum"), "version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert "wiresum" in done.stdout


def test_version_is_json_on_request():
    assert {"wiresum", "torch", "python", "kernel"} == set(json.loads(wiresum("version", "--json").stdout))


def test_doctor_judges_each_thing_and_says_what_to_do():
    done = wiresum("doctor", "--json")
    findings = json.loads(done.stdout)["findings"]
    needed = [finding for finding in findings if not finding["optional"]]
    assert done.returncode == (0 if all(finding["fine"] for finding in needed) else 3)
    assert all(finding["fine"] or finding["problem"] for finding in findings)


def test_doctor_names_a_misspelt_setting():
    environment = {**os.environ, "WIRESUM_PLANN": "plan.json"}
    command = [sys.executable, "-m", "wiresum", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False, env=environment)
    (found,) = [one for one in json.loads(done.stdout)["findings"] if one["name"] == "WIRESUM_ variables"]
    assert "did you mean WIRESUM_PLAN?" in found["problem"]
    assert done.returncode == 3


def test_a_run_shows_output_by_rank_and_its_environment():
    done = wiresum(*RUN, "--", "sh", "-c", "echo $RANK/$WORLD_SIZE over $WIRESUM_TESTBED_BACKEND")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["[0] 0/2 over gloo", "[1] 1/2 over gloo"]
    assert "loopback instead of namespaces" in done.stderr


def test_a_run_ends_with_the_first_failures_exit_code():
    done = wiresum(*RUN, "--", "sh", "-c", "exit $((40 + RANK * 0))")
    assert done.returncode == 40
    assert "failed with exit code 40" in done.stderr


def test_a_run_summarizes_itself_for_machines():
    done = wiresum(*RUN, "--json", "--", "echo", "hello")
    summary = json.loads(done.stdout)
    assert summary["exit_codes"] == [0, 0]
    assert summary["backend"] == "gloo"
    assert summary["left_out"]
    assert "[0] hello" in done.stderr


@pytest.mark.usefixtures("namespaces")
def test_a_run_in_namespaces_counts_every_link():
    done = wiresum(*RUN[:-1], "--json", "--", "sh", "-c", "ping -c 1 -q $MASTER_ADDR")
    summary = json.loads(done.stdout)
    assert summary["exit_codes"] == [0, 0]
    assert summary["links"]["w1"]["forward"]["packets"] > 0


@pytest.mark.usefixtures("namespaces")
def test_a_testbed_is_kept_listed_and_taken_down():
    name = f"test-cli-{os.getpid()}"
    up = wiresum("testbed", "up", "star", "-n", "1", "-b", "gloo", "--name", name)
    try:
        assert f"ws-{name}-w0" in up.stdout, up.stderr
        listed = {entry["name"]: entry["state"] for entry in json.loads(wiresum("testbed", "list", "--json").stdout)}
        assert listed[name] == "up"
    finally:
        down = wiresum("testbed", "down", name)
    assert down.returncode == 0, down.stderr
    assert name not in wiresum("testbed", "list").stdout


def test_control_c_ends_a_run():
    code = "from wiresum.cli import main; main()"
    command = [sys.executable, "-c", code, *RUN, "--", "sh", "-c", "echo ready; exec sleep 600"]
    # Who runs the tests in the background may have them ignore Control-C, which children inherit.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed) as running:  # noqa: PLW1509
        try:
            assert "ready" in running.stdout.readline()
            running.send_signal(signal.SIGINT)
            assert running.wait(WAIT_S) == 128 + signal.SIGINT
        finally:
            running.kill()


def test_a_plan_is_explained_and_a_job_that_gains_nothing_is_turned_away(tmp_path):
    done = wiresum("plan", "xagg", "--planner", "xagg", "--k", "3", "--explain", "-o", str(tmp_path / "plan.json"))
    assert "k = 3, as given" in done.stderr
    assert "S1 sums W4, W5, W6" in done.stderr
    assert "bottleneck S1" in done.stderr
    file = tmp_path / "evaluation.json"
    rounds = [{"name": f"w{rank}", "compute_seconds": 9.5, "communication_seconds": 0.5} for rank in range(2)]
    file.write_text(json.dumps({"format": "wiresum-evaluation/1", "workers": rounds}))
    done = wiresum("plan", "star", "-n", "2", "--planner", "xagg", "--evaluation", str(file))
    assert done.returncode == 4
    assert "communication is 5.0% of a round" in done.stderr
    assert not done.stdout


def test_a_plan_is_drawn(tmp_path):
    done = wiresum("plan", "star", "-n", "2", "--plot", str(tmp_path / "loads.svg"), "-o", str(tmp_path / "plan.json"))
    assert done.returncode == 0, done.stderr
    assert "w0" in (tmp_path / "loads.svg").read_text()


@pytest.mark.parametrize(("code", "said"), [(3, "failed with exit code 3"), (137, "was killed by SIGKILL (out of")])
def test_the_end_of_a_rank_is_said_in_words(code, said):
    bed = SimpleNamespace(workers=["w0", "w1"])
    outcome = SimpleNamespace(first_failure=1, exit_codes=[0, code], duration_s=2.0, traffic={})
    assert describe(bed, outcome).startswith(f"rank 1 (w1) {said}")


def test_rows_of_a_paper_are_listed_without_measuring():
    done = wiresum("reproduce", "goat", "--list", "--rows", "G4", "--json")
    (row,) = json.loads(done.stdout)
    assert (row["id"], row["classes"]) == ("G4", "AL")
    assert row["seconds"] > 0
    assert row["commands"][0].startswith("wiresum reproduce goat --rows G4")
    assert len(wiresum("reproduce", "zebra", "--list").stdout.splitlines()) > 14


def test_papers_are_listed_by_name():
    assert list(json.loads(wiresum("reproduce", "--list", "--json").stdout)) == list(PAPERS)
    lines = wiresum("reproduce", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(PAPERS)


def test_an_adjusted_plan_says_what_moved(tmp_path):
    plan, topology = str(tmp_path / "plan.json"), tmp_path / "now.json"
    wiresum("plan", "xagg", "--planner", "direct", "-o", plan)
    now = json.loads(wiresum("topology", "xagg").stdout)
    topology.write_text(json.dumps(now))
    same = wiresum("adjust", plan, "-t", str(topology), "--json")
    assert json.loads(same.stdout) == {"changed": False, "reasons": [], "moves": []}
    next(node for node in now["nodes"] if node["name"] == "S2")["idle_cores"] = 0
    topology.write_text(json.dumps(now))
    done = wiresum("adjust", plan, "-t", str(topology), "--json", "-o", str(tmp_path / "next.json"))
    found = json.loads(done.stdout)
    assert found["reasons"] == ["S2 has no idle core; free one"]
    assert [move["child"] for move in found["moves"]] == ["W4", "W5", "W6"]
    assert len(AggregationPlan.read(tmp_path / "next.json").nodes) == 2
    now["nodes"] = [{**node, "sums_at": None} for node in now["nodes"] if node["name"] != "S1"]
    now["links"] = [link for link in now["links"] if "S1" not in (link["source"], link["target"])]
    topology.write_text(json.dumps(now))
    done = wiresum("adjust", plan, "-t", str(topology), "--json", "--against", "xagg")
    assert json.loads(done.stdout)["reasons"] == ["S1 is gone", "S2 has no idle core; free one"]
    assert "adjusted: 5.76 s for 100 MB, 6 moves; anew by xagg: 5.76 s, 6 moves" in done.stderr


def test_a_prediction_names_the_time_and_the_bottleneck(tmp_path):
    file = str(tmp_path / "plan.json")
    wiresum("plan", "xagg", "--planner", "direct", "-o", file)
    done = wiresum("predict", file, "-t", "xagg", "--bytes", "25MB", "--start", "W3=2", "--json")
    found = json.loads(done.stdout)
    assert 2.8 < found["seconds"] < 2.9, done.stderr
    assert found["bottleneck"].startswith("S1: ")
    narrow = wiresum("predict", file, "-t", "xagg", "--start", "W3=2", "--dtype", "bfloat16", "--json")
    assert json.loads(narrow.stdout) == found, "lanes are as wide as the elements"
    shown = wiresum("predict", file, "-t", "xagg", "--plot", str(tmp_path / "rates.svg"))
    assert "bottleneck: S1" in shown.stdout
    assert (tmp_path / "rates.svg").read_text().startswith("<?xml")


def test_elements_of_8_bits_take_a_quarter_of_the_time_where_they_fit(tmp_path):
    file = str(tmp_path / "plan.json")
    wiresum("plan", "star", "--planner", "direct", "--workers", "16", "-o", file)
    command = ("predict", file, "-t", "star", "--workers", "16", "--bytes", "25MB", "--json")
    whole, short = (json.loads(wiresum(*command, *more).stdout) for more in ((), ("--eight-bits",)))
    assert whole["seconds"] / short["seconds"] == pytest.approx(4, rel=0.01)
    wiresum("plan", "star", "--planner", "direct", "--workers", "17", "-o", file)
    refused = wiresum(*command[:4], "--workers", "17", "--eight-bits")
    assert refused.returncode == 2
    assert "17 and `block`" in refused.stderr


SCENARIO = "docs/examples/star.toml"
WRONG = {
    "give a worker and seconds": (["predict", "spec/example-plan.json", "-t", "star", "--start", "w0"], 2),
    "has no node": (["predict", "spec/example-plan.json", "-t", "xagg"], 2),
    "there is no topology ring": (["plan", "ring"], 2),
    "no such file; did you mean star?": (["plan", "stra"], 2),
    "name a paper: goat": (["reproduce"], 2),
    "is not a rate": (["topology", "star", "--rate", "fast"], 2),
    "star.toml:3: topology: rate: 0gbit is not a rate": (
        ["simulate", SCENARIO, "--set", "topology=star:rate=0gbit"],
        2,
    ),
    "is not a size": (["plan", "star", "--gradient", "big"], 2),
    "takes no --workers": (["plan", "xagg", "--workers", "3"], 2),
    "there is no planner magic": (["plan", "star", "--planner", "magic"], 2),
    "a star has 1 to 200 hosts, not 201 workers": (["topology", "star", "-n", "201"], 2),
    "mtu_bytes": (["plan", "star", "--mtu", "9"], 2),
    "cannot be read": (["testbed", "run", "star", "--loopback", "--plan", "absent.json", "--", "true"], 2),
    "was not found": ([*RUN, "--", "no-such-program"], 1),
    "there is no testbed absent": (["testbed", "down", "absent"], 1),
    "name a testbed or give --all": (["testbed", "down"], 2),
    "cannot name a testbed": ([*RUN, "--name", "A B", "--", "true"], 1),
}


@pytest.mark.parametrize(("message", "case"), WRONG.items(), ids=list(WRONG))
def test_what_is_wrong_is_said_in_a_line_with_an_exit_code(message, case):
    arguments, code = case
    done = wiresum(*arguments)
    assert done.returncode == code, done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_plan_says_how_many_its_rounds_wait_for(tmp_path):
    made = wiresum("plan", "star", "--workers", "4", "--participants", "3", "--most-missed", "5")
    rounds = AggregationPlan.parse(made.stdout).job.rounds
    assert rounds is not None
    assert ([(count.node, count.k) for count in rounds.counts], rounds.most_missed) == ([(0, 3)], 5)
    refused = wiresum("plan", "star", "--workers", "4", "--participants", "5")
    assert refused.returncode != 0
    assert "1 to 4 workers of this plan, not 5" in refused.stderr
    refused = wiresum("plan", "star", "--convergence", "1,2")
    assert refused.returncode != 0
    assert "not three numbers" in refused.stderr
