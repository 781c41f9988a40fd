"""Pictures of popularity."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from wiresum.picture import picture
from wiresum.sparse.profile import Profile

SIZE_INCHES = (6.0, 3.8)


def draw(profiles: Mapping[str, Profile], path: Path) -> None:
    """Draws the share of the updates over the number of rows, as Zebra's Fig. 4, with the knee of each.

    Args:
        profiles: by name.
        path: of the picture; the ending chooses the format, as .png or .svg.

    Raises:
        SupportError: matplotlib is not installed, or the file cannot be written.
    """
    with picture(path, figsize=SIZE_INCHES) as (_, axes):
        for name, profile in profiles.items():
            rows, shares = zip(*profile.curve, strict=True)
            (line,) = axes.plot(rows, [100 * share for share in shares], label=name)
            at_knee = np.interp(profile.knee, rows, shares)
            axes.plot([profile.knee], [100 * at_knee], "o", color=line.get_color(), markersize=4)
        axes.set(xscale="log", xlabel="most updated rows", ylabel="share of the updates (%)", ylim=(0, 100))
        axes.grid(visible=True, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, title="dot: the knee", title_fontsize=8)
