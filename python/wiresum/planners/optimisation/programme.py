"""Linear and integer programmes through HiGHS. Only the solver's own process loads this module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import highspy
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]
INFINITY = highspy.kHighsInf
NONE: Vector = np.zeros(0)
"""What rows are joined to, so that there may be none."""
MIP_GAP = 1e-7
"""Relative; of one integer programme. The bound that is reported takes what is left into account."""


@dataclass
class Programme:
    """Maximise costs · x subject to 0 ≤ x ≤ upper and rows, which are added one by one or many at once.

    Attributes:
        costs: of each column; negative ones make it a minimisation.
        upper: of each column.
        integral: which columns take whole numbers only; none where empty.
    """

    costs: Vector
    upper: Vector
    integral: Sequence[bool] = ()
    _columns: list[Indices] = field(default_factory=list)
    _values: list[Vector] = field(default_factory=list)
    _lengths: list[Indices] = field(default_factory=list)
    _low: list[Vector] = field(default_factory=list)
    _high: list[Vector] = field(default_factory=list)

    def row(self, terms: Sequence[tuple[int, float]], low: float = -INFINITY, high: float = INFINITY) -> None:
        """Adds low ≤ Σ value · x[column] ≤ high."""
        columns = np.array([column for column, _ in terms], dtype=np.int64)
        values = np.array([value for _, value in terms], dtype=np.float64)
        self.rows(np.array([len(terms)]), columns, values, np.array([low]), np.array([high]))

    def rows(self, lengths: Indices, columns: Indices, values: Vector, low: Vector, high: Vector) -> None:
        """Adds rows, one after the other.

        Args:
            lengths: (rows,) terms of each.
            columns: (terms,) of all of them.
            values: (terms,) likewise.
            low: (rows,) least value of each.
            high: (rows,) greatest value of each.
        """
        self._lengths.append(lengths)
        self._columns.append(columns)
        self._values.append(values)
        self._low.append(low)
        self._high.append(high)

    def solve(self, time_limit_s: float, gap: float = MIP_GAP) -> SolverOutcome:
        """Solves on one thread, so that the answer is the same every time.

        Args:
            time_limit_s: that HiGHS is asked to keep.
            gap: relative, at which an integer programme is done.
        """
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", 0),
            ("mip_rel_gap", gap),
            ("time_limit", max(time_limit_s, 0.0)),
        ):
            solver.setOptionValue(option, value)
        solver.passModel(self._model())
        solver.run()
        info, solution = solver.getInfo(), solver.getSolution()
        optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return SolverOutcome(
            x=np.array(solution.col_value) if info.primal_solution_status else None,
            prices=np.array(solution.row_dual),
            value=info.objective_function_value,
            bound=info.mip_dual_bound if any(self.integral) else info.objective_function_value if optimal else INFINITY,
            optimal=optimal,
        )

    def _model(self) -> highspy.HighsLp:
        model = highspy.HighsLp()
        lengths = np.concatenate([np.zeros(0, dtype=np.int64), *self._lengths])
        model.num_col_, model.num_row_ = len(self.costs), len(lengths)
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_, model.col_lower_, model.col_upper_ = self.costs, np.zeros(len(self.costs)), self.upper
        model.row_lower_, model.row_upper_ = np.concatenate([NONE, *self._low]), np.concatenate([NONE, *self._high])
        matrix = model.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_ = np.concatenate([[0], np.cumsum(lengths)])
        matrix.index_ = np.concatenate([np.zeros(0, dtype=np.int64), *self._columns]).astype(np.int32)
        matrix.value_ = np.concatenate([NONE, *self._values])
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[bool(whole)] for whole in self.integral]
        return model


@dataclass(frozen=True)
class SolverOutcome:
    """What the solver found.

    Attributes:
        x: the best point; None if it found none.
        prices: dual value of each row (linear programmes).
        value: of that point.
        bound: proven: no point is better.
        optimal: whether the two agree.
    """

    x: Vector | None
    prices: Vector
    value: float
    bound: float
    optimal: bool
