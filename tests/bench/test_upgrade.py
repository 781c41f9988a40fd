"""Daemons are taken over in the middle of training: no step is lost, none differs."""

from __future__ import annotations

import pytest
from tests.capabilities import engines

from wiresum.bench.kills.measure import Watch
from wiresum.bench.upgrade import measure as upgrade
from wiresum.bench.upgrade.command import Options
from wiresum.bench.upgrade.measure import Upgrade
from wiresum.plan.choices import Engine
from wiresum.topology.generators.star import star

UPGRADES = 3


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize("engine", engines("xdp", "udp"))
def test_training_does_not_notice(engine: Engine):
    report = upgrade.measure(Options(upgrades=UPGRADES, engine=engine), topology=star(2, 500e6))
    assert report.parameters["upgrades"] == UPGRADES
    assert "none lost" in report.notes[0]


def test_a_pause_is_the_one_around_its_upgrade():
    upgraded, calm = Watch(), Watch()
    upgraded.times[0], calm.times[0] = [0.0, 1.0, 4.0, 5.0], [0.0, 1.0, 2.0]
    done = [Upgrade("PS", 2.0, 2.5, 0.01), Upgrade("PS", 4.2, 4.3, 0.02)]
    report = upgrade.to_report(Options(), "star", done, upgraded, calm)
    assert [result.runs for result in report.results[::2]] == [[0.01, 0.02], [3.0, 1.0]]
