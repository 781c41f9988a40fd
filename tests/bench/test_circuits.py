"""`wiresum bench circuits`, on little: every frame is counted, light keeps its time, and every driver is measured."""

from wiresum.bench.circuits.command import Options
from wiresum.bench.circuits.measure import measure
from wiresum.circuits.emulator.server import SERVERS


def test_light_orders_and_drivers_are_measured(namespaces):
    options = Options(rate_bps=20e6, dark_s=5e-3, settle_s=2e-3, ports=8, runs=4)
    report = measure(options)
    results = {one.name: one for one in report.results}
    assert min(results["order to light"].runs) >= options.dark_s + options.settle_s
    assert len(results["order of 8 ports"].runs) == options.runs
    assert {name.partition(":")[0] for name in results if ":" in name} == set(SERVERS)
    assert "0 frames were neither counted as passed nor as dark" in report.notes
    (share,) = report.ratios
    assert share.value > 0
