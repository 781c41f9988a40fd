"""`wiresum circuits`, against an emulated switch in this process and one of its own."""

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from random import Random

import pytest
from tests.circuits.switches import device, pair

from wiresum.circuits.device import both_ways
from wiresum.circuits.emulator.crossbar import of_topology
from wiresum.circuits.emulator.server import HOST, Device, Serving
from wiresum.topology.generators.optical import optical

WAIT_S = 60


def run(*arguments):
    command = [sys.executable, "-c", "from wiresum.cli import main; main()", "circuits", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    return done.returncode, done.stdout, done.stderr


@contextmanager
def serving(own, protocol="polatis-scpi"):
    with Serving(own, {protocol: (HOST, 0)}) as servers:
        yield f"--driver={servers.url(protocol)}"


def test_connect_joins_what_is_named_and_touches_nothing_else():
    own = device(dark_s=0.0)
    own.crossbar.order(0.0, [], both_ways({pair(7, 8)}))
    with serving(own, "emulated") as driver:
        code, out, _ = run("connect", "1,5", "2,6", driver)
        assert (code, out) == (0, "joined 1 – 5\njoined 2 – 6\n")
        assert own.crossbar.connections == both_ways({pair(1, 5), pair(2, 6), pair(7, 8)})
        code, _, err = run("connect", "3,8", driver)
        assert code == 1
        assert "7 → 8: one of the ports is not ours" in err
        told = json.loads(run("show", driver, "--json")[1])
        assert told["circuits"] == [["1", "5"], ["2", "6"], ["7", "8"]]
        assert told["ports"]["1"] == {"state": "lit", "reason": ""}
        assert "1 – 5: lit" in run("show", driver)[1]


def test_watch_says_what_fails_and_its_exit_code_too():
    own = device(dark_s=0.0)
    own.crossbar.faults.failing["3"] = "mirror 7"
    own.crossbar.order(0.0, [], both_ways({pair(1, 2), pair(3, 4)}))
    with serving(own, "emulated") as driver:
        assert run("watch", driver, "--ports", "1,2")[0] == 0
        code, out, _ = run("watch", driver, "--json")
    assert code == 1
    assert {(one["port"], one["state"]) for one in map(json.loads, out.splitlines())} == {
        ("1", "lit"), ("2", "lit"), ("3", "failed"), ("4", "failed"),
    }  # fmt: skip


def plans_of(tmp_path, intervals):
    """A topology of three units, a schedule, and the unit's switch."""
    topology = optical(3, 1, ports=2, dark_s=0.0)
    file, schedule = tmp_path / "optical.json", tmp_path / "schedule.json"
    topology.write(file)
    schedule.write_text(json.dumps(intervals))
    return Device(of_topology(topology, topology.node("oxc"))), [str(schedule), "--topology", str(file), "--json"]


def test_apply_brings_the_circuits_of_an_interval_and_removes_all_others(tmp_path):
    first, second = ([{"switch": "oxc", "links": ["u0-1", end]}] for end in ("u1-1", "u2-1"))
    intervals = [{"from_s": 0, "until_s": 1, "circuits": first}, {"from_s": 1, "circuits": second}]
    document = {"format": "wiresum-schedule/1", "intervals": [{**one, "plans": {}} for one in intervals]}
    own, common = plans_of(tmp_path, document)
    with serving(own, "calient-tl1") as driver:
        assert json.loads(run("apply", *common, driver)[1])["added"] == [["1", "3"]]
        assert json.loads(run("apply", *common, driver, "--interval", "1")[1])["added"] == [["1", "5"]]
        assert own.crossbar.connections == both_ways({pair(1, 5)})
        code, _, err = run("apply", *common, driver, "--interval", "7")
    assert code == 2
    assert "has 2 intervals, and no interval 7" in " ".join(err.split())


def test_apply_finds_ports_for_a_timetable_and_leaves_alone_what_stays(tmp_path):
    first, second = (
        [{"between": pair, "circuits": 1} for pair in pairs]
        for pairs in ([["u0", "u1"], ["u1", "u2"]], [["u1", "u2"], ["u0", "u2"]])
    )
    own, common = plans_of(
        tmp_path, {"format": "wiresum-timetable/1", "intervals": [{"circuits": first}, {"circuits": second}]}
    )
    with serving(own, "emulated") as driver:
        assert json.loads(run("apply", *common, driver)[1])["added"] == [["1", "3"], ["4", "5"]]
        told = json.loads(run("apply", *common, driver, "--interval", "1")[1])
    assert told["added"] == [["1", "6"]]
    assert told["removed"] == [["1", "3"], ["3", "1"]]


@pytest.mark.parametrize("seed", range(4))
def test_an_order_after_a_killed_one_finds_what_is_lit_and_goes_on(seed):
    random, own = Random(seed), device(dark_s=0.0)
    own.faults.extend(["late"] * 12)  # So that there is a middle to be killed in.
    with serving(own, "calient-tl1") as driver:
        command = [sys.executable, "-c", "from wiresum.cli import main; main()", "circuits", "connect"]
        killed = subprocess.Popen(
            [*command, "1,2", "3,4", driver], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not own.crossbar.orders and killed.poll() is None:
            time.sleep(0.001)
        time.sleep(random.random() * 0.3)
        killed.kill()
        killed.wait()
        assert own.crossbar.connections <= both_ways({pair(1, 2), pair(3, 4)})
        assert run("connect", "1,2", "3,4", driver)[0] == 0
    assert own.crossbar.connections == both_ways({pair(1, 2), pair(3, 4)})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["connect", "1", "--driver", "emulated://h"], "is not a circuit; give its two ports"),
        (["show", "--driver", "elsewhere://h"], "names no driver"),
        (["emulate", "--serve", "polatis-rest:many"], "is not PROTOCOL or PROTOCOL:PORT"),
        (["emulate", "--serve", "telepathy:7"], "there is no protocol telepathy"),
    ],
)
def test_bad_arguments_are_named(arguments, named):
    code, _, err = run(*arguments)
    assert code in {1, 2}
    assert named in " ".join(err.split())


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_an_emulated_switch_serves_until_it_is_interrupted(end):
    command = [sys.executable, "-c", "from wiresum.cli import main; main()", "circuits", "emulate", "--ports", "4"]
    serve = ["--serve", "polatis-scpi:0", "--serve", "emulated:0", "--dark", "0s", "--talk"]
    emulator = subprocess.Popen([*command, *serve], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        urls = [emulator.stdout.readline().strip() for _ in range(2)]
        assert run("connect", "1,2", "--driver", urls[0] + "?light=0")[0] == 0
        assert json.loads(run("show", "--driver", urls[1], "--json")[1])["circuits"] == [["1", "2"]]
    finally:
        emulator.send_signal(end)
        _, talk = emulator.communicate(timeout=WAIT_S)
    assert emulator.returncode == 0
    assert "> :oxc:swit:conn:add (@1,2),(@6,5)" in talk
