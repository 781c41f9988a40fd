"""Every picture has one frame and one style."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

from wiresum.picture import CYCLE, OURS, RIVAL, picture

PACKAGE = Path(__file__).parents[2] / "python/wiresum"
OWN_STYLE = re.compile(r"tab:\w+|rcParams|plt\.style|pyplot\.subplots|\"#[0-9a-fA-F]{6}\"")


def luminance(colour: str) -> float:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_no_picture_has_colours_or_settings_of_its_own():
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "picture.py"]
    assert [str(path) for path in files if OWN_STYLE.search(path.read_text(encoding="utf-8"))] == []


def test_neighbours_in_the_cycle_differ_without_colour_or_by_hue():
    assert {OURS, RIVAL} == set(CYCLE[:2])
    assert len(set(CYCLE)) == len(CYCLE) == 7
    assert abs(luminance(OURS) - luminance(RIVAL)) > 0.05


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_leaves_no_setting_behind(ending: str, tmp_path: Path):
    before = mpl.rcParams["axes.spines.top"], mpl.rcParams["axes.prop_cycle"]
    path = tmp_path / "folder" / f"lines.{ending}"
    with picture(path) as (_, axes):
        drawn = [axes.plot([0, 1], [0, number])[0] for number in range(len(CYCLE) + 1)]
        assert not axes.spines["top"].get_visible()
    assert [line.get_color() for line in drawn[:-1]] == list(CYCLE)
    assert (drawn[-1].get_color(), drawn[-1].get_linestyle()) == (CYCLE[0], "--")
    assert path.stat().st_size > 1000
    assert (mpl.rcParams["axes.spines.top"], mpl.rcParams["axes.prop_cycle"]) == before
