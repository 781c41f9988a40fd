"""P4INC-AOI live: Fig. 2's connections, and its testbed at 1:800, with exact sums."""

import pytest

from wiresum.reproduce.p4inc_aoi import printed, scaled, schemes, testbed, throughput
from wiresum.reproduce.p4inc_aoi.connections import measure


def test_each_panel_sets_up_the_connections_that_the_paper_counts(namespaces):
    report = measure(True, lambda line: None)
    assert {one.name: int(one.median) for one in report.results} == printed.CONNECTIONS


def test_two_workers_train_faster_where_their_switch_sums(namespaces):
    """No faster than a closed form without headers has it, and no iteration is shorter than its computing."""
    with_sums, without = (scaled.iteration_s("vgg16", sums=sums) for sums in (True, False))
    assert throughput.fit().compute_s("vgg16") < with_sums < without


@pytest.mark.parametrize("scheme", ["INC-TW", "noINC-FCFS"])
def test_jobs_of_the_testbed_end_with_exact_sums(namespaces, scheme, monkeypatch):
    monkeypatch.setattr(testbed, "ITERATIONS", 2)
    found = scaled.run("resnet50", 3, schemes.SCHEMES[scheme])
    assert found[schemes.SETUPS] == scaled.simulate("resnet50", 3, schemes.SCHEMES[scheme])[schemes.SETUPS]
    assert found[testbed.JCT] > 3 * 2 * throughput.fit().compute_s("resnet50")
