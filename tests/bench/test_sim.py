"""The simulator's benchmark: that it measures what it says. Speeds are for the benchmark itself."""

import sys

import pytest

from wiresum.bench.sim import loads as sim_loads
from wiresum.bench.sim import measure as sim
from wiresum.bench.sim import rival as sim_rival
from wiresum.cli.simulate import load
from wiresum.errors import SupportError

RIVAL = """#!{python}
import sys
lines = open(sys.argv[sys.argv.index("-tm") + 1]).read().splitlines()
assert lines[0] == "Nodes " + sys.argv[sys.argv.index("-nodes") + 1]
sum(range(3_000_000))
print("New: 172032 Rtx: 0 Bounced: 0")
"""


@pytest.fixture
def rival(tmp_path):
    path = tmp_path / "htsim_ndp"
    path.write_text(RIVAL.format(python=sys.executable))
    path.chmod(0o755)
    return path


def test_every_case_runs_and_says_what_it_took():
    options = sim.Options(fidelities=("trains", "flows", "memory"), runs=1, scale=0.001)
    report = sim.measure(options, load)
    assert [result.unit for result in report.results] == ["slot-events/s"] * 3 + ["recomputations/s"] * 2 + ["B"] * 3
    for result in report.results:
        # So little in flight may fit into what the interpreter has had before.
        assert result.median > 0 or result.unit == "B"
        assert result.extra["virtual_s"] > 0
        assert result.extra["events"] > 0
    assert report.to_json()["benchmark"] == "sim"


def test_packets_are_those_that_arrive(tmp_path, rival):
    """Beside a made-up rival; the simulator says itself how much crossed its links."""
    options = sim.Options(fidelities=("packets",), runs=1, scale=0.01, htsim=rival, keep=tmp_path / "kept")
    report = sim.measure(options, load)
    small = report.results[0]
    groups = small.extra["hosts"] // sim_loads.HOSTS_OF_A_JOB
    delivered = 2 * groups * (sim_loads.HOSTS_OF_A_JOB - 1) * sim_loads.fragments(10_000)
    assert small.median == pytest.approx(delivered / small.extra["cpu_s"][0])
    # Each crosses two links or more, six at most; and workers join and agree on exponents before.
    assert 2 * delivered < small.extra["packet_hops"] < 6 * (delivered + 40 * small.extra["hosts"])
    names = [ratio.name for ratio in report.ratios]
    assert names[0] == "packets/s, 128 hosts / 1024 hosts"
    assert names[1:] == ["packets/s / csg-htsim's, 128 hosts", "packets/s / csg-htsim's, 1024 hosts"]
    assert len(list((tmp_path / "kept").glob("*.json"))) == 2


def test_a_permutation_gives_everyone_one_to_send_to():
    lines = sim_rival.permutation(16).splitlines()
    pairs = [line.split(" ")[0].split("->") for line in lines[2:]]
    sources, targets = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    assert sources == targets == {str(host) for host in range(16)}
    assert all(source != target for source, target in pairs)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n"])
def test_a_rival_that_is_none_is_refused(tmp_path, text):
    path = tmp_path / "other"
    path.write_text(text)
    path.chmod(0o755)
    with pytest.raises(SupportError, match="htsim_ndp"):
        sim_rival.packets_per_second(path, 16)
