"""Commands at every worker, on the loopback interface, where every machine can run them."""

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.testbed.traces import WAIT_S

from wiresum.deploy import daemon, server
from wiresum.errors import DeploymentError, SupportError, TestbedError
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.testbed import Testbed, processes, run
from wiresum.testbed.environment import BACKEND_VARIABLE, SPARSE_JOB_VARIABLE
from wiresum.testbed.run import MAX_LINE_BYTES
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg


@pytest.fixture
def bed(name):
    with Testbed(star(3), name=name, loopback=True) as bed:
        yield bed


def collect(bed: Testbed, *command: str, environment: dict[str, str] | None = None):
    """The outcome, and the lines as (rank, is error, text)."""
    lines: list[tuple[int, bool, str]] = []
    outcome = run(bed, command, lambda *line: lines.append(line), environment)
    return outcome, sorted(lines)


def test_output_comes_by_rank_and_stream(bed):
    outcome, lines = collect(bed, "sh", "-c", "echo out $RANK; echo err $RANK >&2")
    assert outcome.exit_code == 0
    assert outcome.first_failure is None
    assert lines == [
        (rank, error, f"{'err' if error else 'out'} {rank}") for rank in range(3) for error in (False, True)
    ]


def test_workers_find_what_a_process_group_needs(bed):
    names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GLOO_SOCKET_IFNAME"]
    outcome, lines = collect(bed, "sh", "-c", "echo " + " ".join(f"${name}" for name in names))
    assert outcome.exit_codes == [0, 0, 0]
    ports = {text.split()[5] for _, _, text in lines}
    assert len(ports) == 1
    assert [text.split()[:5] for _, _, text in lines] == [[str(r), "3", str(r), "3", "127.0.0.1"] for r in range(3)]
    assert {text.split()[6] for _, _, text in lines} == {"lo"}
    _, lines = collect(bed, "sh", "-c", "echo $GROUP_RANK $NODE_RANK")
    assert {text for _, _, text in lines} == {"0 0"}, "all are on one host"


def test_the_callers_environment_is_passed_on_and_may_be_overridden(bed, monkeypatch):
    monkeypatch.setenv("FROM_CALLER", "here")
    _, lines = collect(bed, "sh", "-c", "echo $FROM_CALLER $WORLD_SIZE", environment={"WORLD_SIZE": "9"})
    assert lines[0] == (0, False, "here 9")


def test_the_first_failure_ends_the_others(bed):
    outcome, _ = collect(bed, "sh", "-c", 'test "$RANK" = 1 && exit 7; exec sleep 600')
    assert outcome.first_failure == 1
    assert outcome.exit_code == 7
    assert outcome.exit_codes == [128 + signal.SIGTERM, 7, 128 + signal.SIGTERM]


def test_workers_that_ignore_polite_requests_are_ended_by_force(bed, monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "GRACE_S", 0.2)
    stubborn = 'trap "" TERM; touch "$READY/$RANK"; while :; do sleep 0.1; done'
    failing = 'until [ -e "$READY/0" -a -e "$READY/2" ]; do sleep 0.1; done; exit 7'
    command = f'if [ "$RANK" = 1 ]; then {failing}; else {stubborn}; fi'
    outcome, _ = collect(bed, "sh", "-c", command, environment={"READY": str(tmp_path)})
    assert outcome.exit_codes == [128 + signal.SIGKILL, 7, 128 + signal.SIGKILL]


def test_a_worker_that_a_signal_ended_has_a_shells_exit_code(bed):
    outcome, _ = collect(bed, "sh", "-c", "kill -SEGV $$")
    assert outcome.exit_code == 128 + signal.SIGSEGV


def test_output_that_a_child_of_a_worker_holds_open_does_not_hold_the_run(bed):
    outcome, lines = collect(bed, "sh", "-c", "sleep 600 & echo done")
    assert outcome.exit_codes == [0, 0, 0]
    assert lines == [(rank, False, "done") for rank in range(3)]


def test_the_last_line_needs_no_line_end_and_bytes_need_not_be_text(bed):
    _, lines = collect(bed, "sh", "-c", r"printf 'a\n\377b'")
    assert [text for rank, _, text in lines if rank == 0] == ["a", "\ufffdb"]


def test_a_line_without_end_is_cut(bed):
    size = 3 * MAX_LINE_BYTES
    outcome, lines = collect(bed, sys.executable, "-c", f"print('x' * {size}, end='')")
    assert outcome.exit_code == 0
    pieces = [text for rank, _, text in lines if rank == 0]
    assert sum(map(len, pieces)) == size
    assert max(map(len, pieces)) <= 2 * MAX_LINE_BYTES


def test_a_command_that_does_not_exist_is_named(bed):
    with pytest.raises(TestbedError, match="`no-such-program` was not found"):
        collect(bed, "no-such-program")


def test_loopback_says_what_it_leaves_out(bed):
    assert any("not shaped" in remark for remark in bed.left_out)
    assert bed.link_bytes() == {}
    assert bed.why_loopback == "asked for"


def test_a_testbed_works_outside_the_main_thread(name):
    codes = []

    def work():
        with Testbed(star(2), name=name, loopback=True) as bed:
            codes.extend(run(bed, ["true"], lambda *_: None).exit_codes)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(WAIT_S)
    assert codes == [0, 0]


def test_gloo_reduces_over_a_testbed(bed):
    script = (
        "import torch, torch.distributed as dist; dist.init_process_group('gloo'); "
        "t = torch.full((1000,), float(dist.get_rank())); dist.all_reduce(t); "
        "print(t.unique().item()); dist.destroy_process_group()"
    )
    outcome, lines = collect(bed, sys.executable, "-c", script)
    assert outcome.exit_code == 0, lines
    assert [text for _, error, text in lines if not error] == ["3.0"] * 3


@pytest.mark.parametrize("topology", [star(2), xagg()], ids=["star", "xagg"])
def test_a_plan_starts_its_aggregators(name, topology):
    with Testbed(topology, plan(topology, Job()), name=name, loopback=True) as bed:
        assert bed.plan is not None
        assert {node.engine for node in bed.plan.nodes} == {"udp"}
        _, lines = collect(bed, "sh", "-c", "echo $WIRESUM_PLAN")
        assert {text for _, _, text in lines} == {str(bed.plan_file)}
        counters = bed.deployment.stop()
    assert set(counters) == {node.name for node in bed.plan.nodes}
    assert all("verdicts" in counted for counted in counters.values())


def test_an_aggregator_that_dies_is_reported(name, tmp_path, monkeypatch):
    script = tmp_path / "wiresum-node"
    script.write_text("#!/bin/sh\necho ready\nread -r line\necho out of luck >&2\n")
    script.chmod(0o755)
    monkeypatch.setattr(daemon, "find_binary", lambda: str(script))
    with Testbed(star(2), plan(star(2), Job()), name=name, loopback=True) as bed:
        bed.deployment.daemon("switch").process.wait(WAIT_S)
        assert bed.deployment.dead() == {"switch": "ready\nout of luck"}
        assert bed.deployment.stop() == {"switch": {}}


def test_an_aggregator_that_does_not_start_is_an_error_with_its_words(name, tmp_path, monkeypatch):
    script = tmp_path / "wiresum-node"
    script.write_text("#!/bin/sh\necho cannot bind >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(daemon, "find_binary", lambda: str(script))
    with pytest.raises(DeploymentError, match="at switch ended with 3: cannot bind"):
        Testbed(star(2), plan(star(2), Job()), name=name, loopback=True).up()


def test_an_aggregator_that_is_never_ready_is_an_error(name, tmp_path, monkeypatch):
    script = tmp_path / "wiresum-node"
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setattr(daemon, "find_binary", lambda: str(script))
    monkeypatch.setattr(server, "START_S", 0.3)
    with pytest.raises(DeploymentError, match="is not ready after"):
        Testbed(star(2), plan(star(2), Job()), name=name, loopback=True).up()


def test_a_daemon_that_is_not_built_is_named(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SupportError, match="make build"):
        daemon.find_binary()


def test_children_are_gone_with_the_testbed(name):
    with Testbed(star(1), name=name, loopback=True) as bed:
        child = bed.spawn("w0", ["sleep", "600"], stdin=subprocess.DEVNULL)
    assert child.poll() == -signal.SIGTERM


def test_the_guide_lists_every_variable(bed):
    guide = (Path(__file__).parents[2] / "docs" / "testbed.md").read_text()
    table = guide.split("## What a worker finds")[1].split("\n## ")[0]
    documented = set(re.findall(r"`([A-Z_]{4,})`", table))
    given = {
        *bed.worker_environment(0),
        "WIRESUM_PLAN",
        BACKEND_VARIABLE,
        processes.TOKEN_VARIABLE,
        SPARSE_JOB_VARIABLE,
    }
    assert documented == given


DIES_ON_RANK_1 = "[ $RANK = 1 ] && kill -KILL $$; sleep 0.5; echo done"


def test_a_rank_that_is_killed_ends_the_others(bed):
    outcome, lines = collect(bed, "sh", "-c", DIES_ON_RANK_1)
    assert outcome.first_failure == 1
    assert outcome.exit_code == 128 + signal.SIGKILL
    assert lines == []


def test_ranks_that_outlive_others_are_left_alone(bed):
    outcome, lines = collect(bed, "sh", "-c", DIES_ON_RANK_1, environment={"WIRESUM_ON_LOSS": "continue"})
    assert outcome.first_failure is None
    assert outcome.exit_codes == [0, 128 + signal.SIGKILL, 0]
    assert [text.strip() for _, _, text in lines] == ["done", "done"]


def test_a_rank_that_ends_with_an_error_ends_those_that_outlive_others(bed):
    command = "[ $RANK = 1 ] && exit 3; sleep 20"
    outcome, _ = collect(bed, "sh", "-c", command, environment={"WIRESUM_ON_LOSS": "continue"})
    assert (outcome.first_failure, outcome.exit_code) == (1, 3)
