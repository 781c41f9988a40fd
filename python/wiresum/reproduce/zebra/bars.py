"""Fractions of the models beside each other, as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from wiresum.bench import bars
from wiresum.reproduce.zebra import printed


def draw(path: Path, models: Iterable[str], fractions: Mapping[str, Mapping[str, float]], ylabel: str) -> None:
    """Draws a group of bars for each model.

    Args:
        path: of the picture.
        models: names of their traces.
        fractions: for each kind of bar, its height by model, drawn in percent; a model that is not there has no bar.
        ylabel: what the heights are.

    Raises:
        SupportError: matplotlib is not installed.
    """
    models = list(models)
    heights = {name: [100 * values.get(model, float("nan")) for model in models] for name, values in fractions.items()}
    bars.draw(path, [printed.NAMES[model] for model in models], heights, {}, ylabel)
