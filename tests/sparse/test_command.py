"""`wiresum sparse` as its users meet it."""

import json

import numpy as np
import pytest
from tests.cli.forks import wiresum

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.sparse import SparsePart
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


PLAN = ["plan", "star", "--workers", "4", "--rate", "20mbit", "--planner"]


def test_rows_are_planned_with_a_hot_map(tmp_path):
    file, hot = tmp_path / "plan.json", tmp_path / "hot.json"
    done = wiresum(*PLAN, "tiers", "--servers", "1", "--trace", "criteo:scale=0.01,batch=64", "--replicas", "500",
                   "--model", "4KB", "-o", str(file), "--hot", str(hot), "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    part, plan = SparsePart.parse(done.stdout), AggregationPlan.read(file)
    assert part.servers == ["s0"]
    assert part.dense_bytes == 4000
    assert 0 < part.replicated_rows <= 500
    assert len(json.loads(hot.read_text())["rows"]) == part.replicated_rows + part.summed_rows
    assert (plan.sparse.hot.file, plan.sparse.hot.replicated) == ("hot.json", part.replicated_rows)
    predicted = wiresum("predict", str(file), "-t", "star:workers=4,rate=20mbit,servers=1", "--bytes", "4KB", "--json")
    assert SparsePart.parse(predicted.stdout).seconds == pytest.approx(part.seconds), predicted.stderr
    assert "hot rows of hot.json" in wiresum("explain", str(file)).stdout
    job = json.loads(wiresum("sparse", "job", str(file)).stdout)
    assert job["hot"] == json.loads(hot.read_text())
    refused = wiresum("adjust", str(file), "-t", "star:workers=4,servers=1")
    assert (refused.returncode, "the plan has tables" in refused.stderr) == (2, True)


def test_tables_are_enough_for_a_plan(tmp_path):
    tables, file = tmp_path / "tables.json", tmp_path / "plan.json"
    tables.write_text(parse("criteo:scale=0.001").tables.to_json())
    done = wiresum(*PLAN, "tiers", "--servers", "1", "--tables", str(tables), "-o", str(file))
    assert done.returncode == 0, done.stderr
    assert AggregationPlan.read(file).sparse.trace == "tables"
    assert (tmp_path / "plan.json.hot").exists()


def test_where_sums_do_not_pay_the_planner_says_so():
    done = wiresum(*PLAN, "tiers", "--beside", "--trace", "zipf:s=0,features=10,batch=10")
    assert done.returncode == 4
    assert "push rows to their servers" in done.stderr
    assert "bottleneck" in done.stdout


def test_planners_of_rows_ask_for_a_trace_and_servers():
    assert "say which ones with --tables or --trace" in wiresum(*PLAN, "zebra", "--beside").stderr
    done = wiresum(*PLAN, "zebra", "--trace", "zipf")
    assert done.returncode == 2
    assert "topology star has 0, not one" in done.stderr


@pytest.mark.parametrize(
    "options",
    [["--k", "3"], ["--plot", "loads.png"], ["--switched", "auto"], ["--tries", "3"], ["--parts", "2"],
     ["--participants", "3"], ["--explain"]],
)  # fmt: skip
def test_options_that_a_planner_of_rows_does_not_heed_are_refused(options):
    done = wiresum(*PLAN, "tiers", "--servers", "1", "--trace", "zipf:rows=2000,features=9,batch=9", *options)
    assert done.returncode == 2
    assert f"{options[0]}: the planner tiers places rows and does not heed it" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "options",
    [["--trace", "zipf"], ["--tables", "none.json"], ["--beside"], ["--replicas", "3"], ["--hot", "hot.json"]],
)
def test_options_of_rows_are_refused_by_other_planners(options):
    done = wiresum(*PLAN, "direct", *options)
    assert done.returncode == 2
    assert f"{options[0]}: the planner direct places no rows; choose tiers or zebra" in " ".join(done.stderr.split())


def test_zebra_keeps_no_rows_at_workers():
    done = wiresum(*PLAN, "zebra", "--servers", "1", "--trace", "zipf:rows=2000,features=9,batch=9", "--replicas", "3")
    assert done.returncode == 2
    assert "the planner zebra keeps no rows at workers" in " ".join(done.stderr.split())


def test_a_model_brings_its_own_tables(tmp_path):
    file = tmp_path / "tables.json"
    file.write_text(wiresum("sparse", "tables", "lr").stdout)
    sparse = ["--servers", "1", "--tables", str(file), "--trace"]
    part = SparsePart.parse(wiresum(*PLAN, "tiers", *sparse, "criteo:batch=64", "--json").stdout)
    assert part.tables[2].name == "C3.weight"
    assert part.tables[2].dimension == 1
    done = wiresum(*PLAN, "tiers", *sparse, "criteo:scale=0.1")
    assert done.returncode == 2
    assert "C1.weight has 1460 rows and 1 features, and the trace's C1 has 146 and 1" in done.stderr
    assert "tables: there are 26, and the trace has 1" in wiresum(*PLAN, "tiers", *sparse, "zipf").stderr
    assert "choose from dlrm" in wiresum("sparse", "tables", "resnet50").stderr
