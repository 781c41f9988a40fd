"""GOAT's testbed in simulation: bytes at the server are what plans say, and the figures are drawn."""

import pytest

from wiresum.plan.models import MODELS, count
from wiresum.reproduce import PAPERS
from wiresum.reproduce.goat import testbed
from wiresum.reproduce.goat.goat_testbed import measure as goat_testbed
from wiresum.reproduce.goat.goat_testbed.measure import (
    COMMUNICATION,
    DEVIATION_S,
    NAMES,
    ROUND,
    SERVER,
    SPEED,
    Options,
    median,
)

WORKERS = 4
TINY = Options(
    by_workers=("resnet18",), by_model=("resnet18",), workers=(2, WORKERS), few=WORKERS, seeds=1, rounds=2, scale=50,
    training_rounds=20,
)  # fmt: skip
HEADERS = 1.1
"""At most, over the gradient's bytes; what is sent again while others are late is less than another model."""


@pytest.fixture(scope="module")
def report():
    return goat_testbed.measure(TINY)


def test_the_server_gets_one_model_or_all_of_them(report):
    model_mb = 4 * count(MODELS["resnet18"]()) / 1e6
    server = {method: median(report, "resnet18", WORKERS, method, SERVER) for method in NAMES}
    assert model_mb < server["goat"] < HEADERS * model_mb
    assert WORKERS * model_mb < server["ps"] < (WORKERS + 1) * model_mb
    assert server["goat"] < server["atp_static"] < server["ps"], "one worker in five is late"


def test_a_round_is_computing_and_communication(report):
    for method in NAMES:
        whole, after = (median(report, "resnet18", WORKERS, method, quantity) for quantity in (ROUND, COMMUNICATION))
        assert after < whole
        assert median(report, "resnet18", WORKERS, method, SPEED) == pytest.approx(WORKERS * 128 / whole)
    least_s = 8 * 4 * count(MODELS["resnet18"]()) / goat_testbed.WORKER_BPS
    assert median(report, "resnet18", WORKERS, "goat", COMMUNICATION) > least_s


def test_calibration_gives_back_what_it_was_made_from():
    assert abs(DEVIATION_S - 0.518) < 0.001
    assert abs(goat_testbed.COMPUTING_S + 1.766 * DEVIATION_S - goat_testbed.SLOWEST_S) < 1e-3


def test_every_case_is_simulated_once():
    cases = TINY.cases()
    assert len(cases) == len(set(cases)) == 2 * len(NAMES)


def test_the_figures_are_drawn(report, tmp_path):
    for figure in testbed.FIGURES:
        figure.draw(report, tmp_path / figure.file)
        assert (tmp_path / figure.file).stat().st_size > 0


def test_rows_say_what_reports_have(report):
    class Reports:
        def report(self, name):
            assert name in PAPERS["goat"].benchmarks
            return report

    row = testbed._simulated("resnet18", WORKERS, SPEED, 0, "images/s")
    ours = median(report, "resnet18", WORKERS, "goat", SPEED)
    assert row(Reports()).startswith(f"simulated: GOAT {ours:.0f}, ESA ")
