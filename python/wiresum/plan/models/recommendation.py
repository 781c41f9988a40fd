"""Models that are mostly tables: their dense parameters, and the tables beside them.

DLRM (Naumov et al., 2019) and DeepFM (Guo et al., 2017) as their authors set them for Criteo's clicks, NCF (He et al.,
2017) as MLPerf sets it for MovieLens, logistic regression and factorization machines (Rendle, 2010) on Criteo's
features.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from wiresum.plan.models.parameters import Parameter, linear

if TYPE_CHECKING:
    from wiresum.plan.tables import OptimizerName, Table, Tables

CRITEO_ROWS = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
    27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip
"""Distinct values of each of the 26 categorical features of Criteo's display advertising challenge (2014)."""
CRITEO_NUMBERS = 13
"""Its numerical features."""
MOVIELENS_ROWS = {"users": 138_493, "items": 26_744}
"""MovieLens-20M."""
DLRM_WIDTH, DEEPFM_WIDTH, FM_WIDTH = 16, 10, 16
DLRM_BOTTOM, DLRM_TOP, DEEPFM_HIDDEN = (512, 256, 64), (512, 256), (400, 400, 400)
NCF_FACTORS, NCF_WIDTH, NCF_HIDDEN = 64, 128, (256, 128, 64)


def dlrm() -> list[Parameter]:
    """The dense parameters of DLRM: a network below its interactions, and one above."""
    vectors = len(CRITEO_ROWS) + 1
    pairs = vectors * (vectors - 1) // 2
    bottom = _layers("bottom", (CRITEO_NUMBERS, *DLRM_BOTTOM, DLRM_WIDTH))
    return [*bottom, *_layers("top", (pairs + DLRM_WIDTH, *DLRM_TOP, 1))]


def deepfm() -> list[Parameter]:
    """The dense parameters of DeepFM: its deep part, and the weights of Criteo's numbers."""
    inputs = CRITEO_NUMBERS + DEEPFM_WIDTH * len(CRITEO_ROWS)
    return [*linear("wide", CRITEO_NUMBERS, 1), *_layers("deep", (inputs, *DEEPFM_HIDDEN, 1))]


def ncf() -> list[Parameter]:
    """The dense parameters of NCF: the perceptron over users and items, and the output over both of its parts."""
    return [
        *_layers("perceptron", (2 * NCF_WIDTH, *NCF_HIDDEN)),
        *linear("output", NCF_FACTORS + NCF_HIDDEN[-1], 1),
    ]


def lr() -> list[Parameter]:
    """The dense parameters of logistic regression: weights of Criteo's numbers, and a bias."""
    return linear("wide", CRITEO_NUMBERS, 1)


def dlrm_tables() -> Tables:
    """The tables of DLRM on Criteo's features."""
    return _tables(_criteo("embedding", DLRM_WIDTH, "row-wise-adagrad"))


def deepfm_tables() -> Tables:
    """The tables of DeepFM: a weight and a vector for each value of a feature."""
    return _tables([*_criteo("weight", 1, "adagrad"), *_criteo("embedding", DEEPFM_WIDTH, "adagrad")])


def ncf_tables() -> Tables:
    """The tables of NCF: users and items, of its factors and of its perceptron."""
    widths = {"factors": NCF_FACTORS, "perceptron": NCF_WIDTH}
    return _tables([
        _table(f"{name}.{part}", rows, width, "sparse-adam")
        for part, width in widths.items()
        for name, rows in MOVIELENS_ROWS.items()
    ])  # fmt: skip


def lr_tables() -> Tables:
    """The tables of logistic regression: a weight for each value of a feature."""
    return _tables(_criteo("weight", 1, "ftrl"))


def fm_tables() -> Tables:
    """The tables of a factorization machine: a weight and a vector for each value of a feature."""
    return _tables([*_criteo("weight", 1, "ftrl"), *_criteo("embedding", FM_WIDTH, "ftrl")])


def _criteo(part: str, dimension: int, optimizer: OptimizerName) -> list[Table]:
    return [_table(f"C{number}.{part}", rows, dimension, optimizer) for number, rows in enumerate(CRITEO_ROWS, start=1)]


def _table(name: str, rows: int, dimension: int, optimizer: OptimizerName) -> Table:
    from wiresum.plan.tables import Optimizer, Table

    return Table(name=name, rows=rows, dimension=dimension, features=[name], optimizer=Optimizer(name=optimizer))


def _tables(tables: list[Table]) -> Tables:
    from wiresum.plan.tables import Tables

    return Tables(tables=tables)


def _layers(name: str, widths: Sequence[int]) -> list[Parameter]:
    pairs = pairwise(widths)
    return [one for index, (before, after) in enumerate(pairs) for one in linear(f"{name}.{index}", before, after)]
