"""Scenarios with a profile of hosts: no worker is faster than its threads, as packets and as flows."""

from __future__ import annotations

from pathlib import Path

import pytest

from wiresum.cli.simulate import load
from wiresum.errors import ScenarioError
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.predict.hosts import Cost, HostProfile, limit_of_threads
from wiresum.sim import ScenarioFile, run
from wiresum.topology.generators.star import star

BYTES = 4_000_000
TEXT = f"""
format = "wiresum-scenario/1"
topology = "star:workers=4,rate=1gbit"
hosts = "hosts.json"
[[job]]
bytes = {BYTES}
"""


def profile(packet_s: float) -> HostProfile:
    cost = Cost(packet_s=packet_s, byte_s=0.0)
    return HostProfile(machine="any", engine="xdp", transport="udp", thread=cost, worker=cost, node=cost)


def simulated(folder: Path, packet_s: float, **changes: object) -> float:
    profile(packet_s).write(folder / "hosts.json")
    path = folder / "it.toml"
    path.write_text(TEXT)
    return float(run(ScenarioFile.read(path, changes), load).seconds_of("job")[-1])


@pytest.mark.parametrize("fidelity", ["packets", "flows"])
def test_a_slow_thread_is_as_a_slow_link(tmp_path: Path, fidelity: str) -> None:
    limit_bps = limit_of_threads(plan(star(4, 1e9), Job()), BYTES, profile(1e-4))
    assert limit_bps < 0.3e9
    slow = simulated(tmp_path, 1e-4, fidelity=fidelity)
    narrow = simulated(tmp_path, 0.0, fidelity=fidelity, topology=f"star:workers=4,rate={limit_bps / 1e6:.6f}mbit")
    assert slow == pytest.approx(narrow, rel=0.02)


@pytest.mark.parametrize("fidelity", ["packets", "flows"])
def test_a_fast_thread_changes_nothing(tmp_path: Path, fidelity: str) -> None:
    assert simulated(tmp_path, 1e-7, fidelity=fidelity) == simulated(tmp_path, 0.0, fidelity=fidelity)


def test_a_profile_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "it.toml").write_text(TEXT)
    with pytest.raises(ScenarioError, match=r"hosts.*hosts\.json"):
        run(ScenarioFile.read(tmp_path / "it.toml", {}), load)


def test_trains_know_no_hosts(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="`hosts` is for a `job` that servers sum"):
        simulated(tmp_path, 0.0, fidelity="trains")
