"""Methods while workers get out of step: what must hold on any network, and that results are taken up again."""

import json

import pytest
from typer.testing import CliRunner

from wiresum.bench.asynchrony import measure as asynchrony
from wiresum.bench.asynchrony.measure import LINKS, ROUNDS, SERVER, SUMMED, Options
from wiresum.bench.methods import METHODS
from wiresum.cli.main import app

WORKERS = 12


@pytest.fixture(scope="module")
def options():
    return Options(
        deviations=(0.0, 0.6), seeds=1, workers=WORKERS, size_bytes=1_000_000, memory_bytes=250_000, rounds=2
    )


@pytest.fixture(scope="module")
def report(options, tmp_path_factory):
    store = tmp_path_factory.mktemp("asynchrony") / "results.jsonl"
    made = asynchrony.measure(options, store)
    return made, store


def medians(report, quantity):
    return {
        (one.extra["method"], one.extra["deviation"]): one.median
        for one in report.results
        if one.extra["quantity"] == quantity
    }


def test_the_server_gets_between_a_model_and_all_of_them(report):
    server = medians(report[0], SERVER)
    assert server["ps", 0.0] == pytest.approx(WORKERS)
    assert server["switchml", 0.0] == 0, "its topmost switch has the sum, no server"
    for method in ("atp", "goat", "ingo", "esa", "p4inc-aoi", "atp_static"):
        assert 1 <= server[method, 0.0] < WORKERS, method


def test_the_papers_model_of_atp_loses_late_workers_and_atp_itself_does_not(report):
    server, links = medians(report[0], SERVER), medians(report[0], LINKS)
    assert server["atp_static", 0.6] > server["atp_static", 0.0] + 1
    assert links["atp_static", 0.6] > links["atp_static", 0.0]
    for method in ("atp", "goat", "ingo"):
        assert server[method, 0.6] == pytest.approx(server[method, 0.0], rel=0.1), method


def test_nothing_is_quicker_when_workers_are_late(report):
    rounds = medians(report[0], ROUNDS)
    assert all(rounds[method, 0.6] < rounds[method, 0.0] for method in (*METHODS, "ring", "byteps"))
    assert medians(report[0], SUMMED)["switchml", 0.6] == 100


def test_collisions_do_not_make_workers_flood_the_server():
    """Windows that shrank where fragments overtook each other had up to 17 times as much sent as without any switch."""
    options = Options(methods=("atp",), deviations=(0.1, 0.3), seeds=5)
    for one in asynchrony.measure(options, None).results:
        if one.extra["method"] == "atp" and one.extra["quantity"] == SERVER:
            assert max(one.runs) <= options.workers, one.name


def test_results_that_are_there_are_not_simulated_again(report, options, monkeypatch):
    made, store = report
    monkeypatch.setattr("wiresum.sim.sweep.ProcessPoolExecutor", None)
    again = asynchrony.measure(options, store)
    assert [one.runs for one in again.results] == [one.runs for one in made.results]


def test_the_command_draws_and_prints(tmp_path):
    picture = tmp_path / "a.png"
    given = ["--methods", "switchml,atp", "--deviations", "0", "--seeds", "1", "--jobs", "2", "--size", "500kB"]
    arguments = ["bench", "asynchrony", *given, "--memory", "250kB", "-n", "8", "--rounds", "1", "--plot", str(picture)]
    shown = CliRunner().invoke(app, [*arguments, "--json"])
    assert shown.exit_code == 0, shown.output
    assert {one["method"] for one in json.loads(shown.stdout)["results"]} == {"switchml", "atp", "ring", "byteps"}
    assert picture.stat().st_size > 0


@pytest.mark.parametrize(
    ("given", "says"), [(["--methods", "best"], "best is not one of"), (["--deviations", "2"], "from 0 to 1")]
)
def test_what_cannot_be_simulated_is_refused(given, says):
    refused = CliRunner().invoke(app, ["bench", "asynchrony", *given])
    assert refused.exit_code == 2
    assert says in refused.output
