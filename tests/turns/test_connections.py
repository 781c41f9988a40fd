"""P4INC-AOI's Fig. 2, live: as many connections as the paper counts, with exact sums."""

from wiresum.reproduce.p4inc_aoi import printed
from wiresum.reproduce.p4inc_aoi.connections import measure


def test_each_panel_sets_up_the_connections_that_the_paper_counts(namespaces):
    report = measure(True, lambda line: None)
    assert {one.name: int(one.median) for one in report.results} == printed.CONNECTIONS
