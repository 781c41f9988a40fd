"""Coflows for benchmarks: the made trace, the folder with the original, the ports' bound, and a run on little."""

import pytest

from wiresum.bench.coflows.command import Options
from wiresum.bench.coflows.matrices import BUSIEST_S, KINDS, matrix
from wiresum.bench.coflows.measure import measure, ports_bound_s
from wiresum.bench.coflows.trace import FILE, MOST_MADE, read
from wiresum.errors import WorkloadError


def test_a_trace_is_made_in_the_format_and_a_folder_without_it_is_refused(tmp_path):
    source, workload = read(None, ["u0", "u1", "u2"])
    assert len(workload.jobs) == MOST_MADE
    assert "made" in source
    with pytest.raises(WorkloadError, match="coflow/coflow-benchmark"):
        read(tmp_path, ["u0"])
    (tmp_path / FILE).write_text("4 1\n1 0 1 2 1 3:1.5\n")
    source, workload = read(tmp_path, ["u0", "u1"])
    assert (source, len(workload.jobs)) == ("the trace", 1)


def test_the_ports_bound_is_of_the_busier_direction_of_the_busiest_unit():
    flows = [("a", "b", 1e9), ("a", "c", 3e9), ("b", "a", 2e9), ("c", "c", 9e9)]
    jobs = [{"traffic": {"flows": [{"from": one, "to": two, "bytes": size} for one, two, size in flows]}}]
    units = [{"name": name, "ports": 2} for name in "abc"]
    assert ports_bound_s({"jobs": jobs, "units": units, "port_bps": 8e9}) == pytest.approx(2.0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_keeps_the_busiest_unit_busy_for_a_second_and_depends_on_its_seed_alone(kind):
    one, darker, other = (
        matrix(kind, 8, 2, dark_s=dark_s, slot_s=0.1, seed=seed) for dark_s, seed in [(0, 1), (0.05, 1), (0, 2)]
    )
    assert ports_bound_s(one) == pytest.approx(BUSIEST_S)
    assert one["jobs"] == darker["jobs"] != other["jobs"]


def test_everybody_is_beside_turns_and_nobody_is_faster_than_the_ports():
    report = measure(Options(coflows=6, units=4, matrices=1), lambda line: None)
    ratios = {one.name: one.value for one in report.ratios}
    assert min(value for name, value in ratios.items() if "bound" in name) >= 1
    assert {name.rpartition(" ")[2] for name in ratios if "arrivals" in name} == {
        "sunflow", "k-core", "varys", "sincronia",
    }  # fmt: skip
    assert {name.rpartition(" ")[2] for name in ratios if "not after" in name} == {"spectra", "solstice", "eclipse"}
