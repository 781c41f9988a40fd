"""Worlds shared by many tests."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import mock_engine  # noqa: E402
from aggregator import aggregator  # noqa: E402
from world import World  # noqa: E402

from wiresum.plan.job import Job  # noqa: E402
from wiresum.plan.options import PlanOptions  # noqa: E402
from wiresum.planners import plan  # noqa: E402
from wiresum.topology.generators.star import star  # noqa: E402
from wiresum.torch import build  # noqa: E402

WORLD_SIZE = 3
"""Ranks: the smallest number that is not a power of two, on two cores."""


@pytest.fixture(scope="session", autouse=True)
def _built(tmp_path_factory: pytest.TempPathFactory) -> None:
    build.build()
    if not entry_points(group="torch.distributed.backends", name="wiresum"):
        _announce(tmp_path_factory.mktemp("site"))


def _announce(site: Path) -> None:
    """Stands in for an installation of this checkout: the entry points of its pyproject.toml."""
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["project"]
    information = site / "wiresum-0.0.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: wiresum\nVersion: 0.0.0\n")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in rows.items()) for group, rows in groups]
    (information / "entry_points.txt").write_text("\n".join(lines))
    sys.path.append(str(site))


@pytest.fixture(scope="session")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan for the ranks of a world, whose aggregator is not running."""
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    plan(star(workers=WORLD_SIZE), Job(), PlanOptions(engine="udp")).write(path)
    return path


@pytest.fixture(scope="session")
def mocked(plan_file: Path) -> Iterator[World]:
    """A world whose engine is a stand-in that obeys the tests."""
    environment = {"WIRESUM_PLAN": str(plan_file), "WIRESUM_MIN_ELEMENTS": "4"}
    with World(WORLD_SIZE, environment, prepare=mock_engine.install) as world:
        yield world


@pytest.fixture(scope="session")
def networked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose gradients travel over loopback to a `wiresum-node` and back."""
    with aggregator(tmp_path_factory.mktemp("networked"), WORLD_SIZE) as node:
        environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1"}
        with World(WORLD_SIZE, environment) as world:
            yield world


@contextmanager
def _copying(directory: Path) -> Iterator[World]:
    with aggregator(directory, WORLD_SIZE, Job(values_per_packet=352, copies=True)) as node:
        environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1"}
        with World(WORLD_SIZE, environment) as world:
            yield world


@pytest.fixture(scope="session")
def copying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The same, with streams for copies and for parts of sums."""
    with _copying(tmp_path_factory.mktemp("copying")) as world:
        yield world


@pytest.fixture
def copies_of_its_own(tmp_path: Path) -> Iterator[World]:
    """A world with copies for a test that breaks it."""
    with _copying(tmp_path) as world:
        yield world
