"""`wiresum sparse` as its users meet it."""

import json

import numpy as np
from tests.cli.forks import wiresum

from wiresum.sparse.spec import parse


def test_a_trace_is_counted_and_written(tmp_path):
    file = tmp_path / "keys.npz"
    done = wiresum("sparse", "trace", "zipf:rows=2000,features=9", "-n", "4", "--rounds", "2", "--seed", "5",
                   "--learn", "1", "-o", str(file), "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["union"] <= 4 * told["pushed"]
    assert [hot["rows"] for hot in told["hot"]] == [1_000, 10_000, 30_000, 60_000, 100_000]
    assert told["hot"][-1]["share"] == 1, "the table has fewer rows"
    with np.load(file) as written:
        pushed = np.split(written["keys"], written["ends"][:-1])
    expected = parse("zipf:rows=2000,features=9", seed=5)
    assert len(pushed) == 8
    assert (pushed[5] == expected.pushed(2, 1, 4)).all(), "of the rounds after those that were learned from"


def test_a_profile_is_told_and_drawn(tmp_path):
    picture = tmp_path / "curve.png"
    spec = "zipf:rows=3000,features=9"
    done = wiresum("sparse", "profile", spec, "--rounds", "3", "--sampling", "10%", "--plot", str(picture))
    assert done.returncode == 0, done.stderr
    assert "knee:" in done.stdout
    assert "10 % of the samples: precision" in done.stdout
    assert picture.read_bytes()[1:4] == b"PNG"
    told = json.loads(wiresum("sparse", "profile", spec, "--rounds", "3", "--sampling", "10%", "--json").stdout)
    assert told["sampled"][0]["rate"] == 0.1
    assert set(told["shares"]) == {"100", "1000"}


def test_a_bad_trace_is_a_wrong_usage():
    done = wiresum("sparse", "trace", "criteo:rows=3")
    assert done.returncode == 2
    assert "rows: the trace criteo has no such field" in done.stderr
