"""Sweeps on a Ray cluster: with one that is made up, and with Ray itself where it is installed."""

import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.cli.simulate import load
from wiresum.errors import SupportError
from wiresum.sim import cluster
from wiresum.sim.sweep import Sweep

TEXT = """
format = "wiresum-scenario/1"
topology = "star:workers=4,rate=1gbit"
fidelity = "flows"
[[job]]
bytes = 400000
"""
SIZES = [400_000, 800_000, 1_200_000]


class Cluster:
    """What `on_ray` uses of Ray; calls run when they are waited for, the last one first."""

    def __init__(self):
        self.addresses = []
        self.most_pending = 0
        self.is_up = False

    def init(self, address, **_):
        if address == "nowhere":
            raise ConnectionError("nobody answers")
        self.addresses.append(address)
        self.is_up = True

    def shutdown(self):
        self.is_up = False

    def remote(self, function):
        return SimpleNamespace(remote=lambda *arguments: Call(function, arguments))

    def wait(self, pending, num_returns):
        assert self.is_up
        self.most_pending = max(self.most_pending, len(pending))
        return pending[-num_returns:], pending[:-num_returns]

    def get(self, call):
        return call.function(*call.arguments)


class Call:
    def __init__(self, function, arguments):
        self.function = function
        self.arguments = arguments


@pytest.fixture
def made_up(monkeypatch):
    cluster = Cluster()
    monkeypatch.setitem(sys.modules, "ray", cluster)
    return cluster


def sweep(tmp_path, ray):
    path = tmp_path / "it.toml"
    path.write_text(TEXT)
    return Sweep(path, load, {"job.0.bytes": SIZES}, tmp_path / "store.jsonl", ray)


def means(results):
    return {result["point"]["job.0.bytes"]: result["summary"]["jobs"]["job"]["mean_s"] for result in results}


def test_a_cluster_finds_what_cores_find(tmp_path, made_up):
    cores, cluster = tmp_path / "cores", tmp_path / "cluster"
    cores.mkdir()
    cluster.mkdir()
    found = means(sweep(cores, None).results())
    assert found.keys() == set(SIZES)
    assert means(sweep(cluster, "auto").results()) == found
    assert made_up.addresses == ["auto"]
    assert not made_up.is_up
    assert means(sweep(cluster, "nowhere").results()) == found, "all of them are in the store"


def test_only_so_many_calls_are_pending(made_up, monkeypatch):
    monkeypatch.setattr(cluster, "MOST_PENDING", 3)
    calls = ((str(number), (number,)) for number in range(10))
    assert dict(cluster.on_ray("auto", abs, calls)) == {str(number): number for number in range(10)}
    assert made_up.most_pending == 3


def test_a_cluster_that_is_not_there_is_named(tmp_path, made_up):
    with pytest.raises(SupportError, match=r"no Ray cluster at nowhere .*ray start"):
        list(sweep(tmp_path, "nowhere").results())


def test_without_ray_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SupportError, match="pip install ray"):
        list(sweep(tmp_path, "auto").results())


def test_a_cluster_is_for_sweeps(tmp_path):
    path = tmp_path / "it.toml"
    path.write_text(TEXT)
    refused = CliRunner().invoke(app, ["simulate", str(path), "--ray", "auto"])
    assert refused.exit_code != 0
    assert "sweep" in refused.output


@pytest.mark.needs("ray")
def test_ray_itself(tmp_path):
    assert means(sweep(tmp_path, "local").results()).keys() == set(SIZES)
