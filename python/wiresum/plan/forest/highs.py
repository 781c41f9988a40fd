"""Linear and integer programmes through HiGHS. Only the solver's own process loads this module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import highspy
import numpy as np

from wiresum.plan.forest.instance import Vector

INFINITY = highspy.kHighsInf
MIP_GAP = 1e-7
"""Relative; of one pricing problem. The bound that is reported takes what is left into account."""


@dataclass
class Programme:
    """Maximise costs · x subject to 0 ≤ x ≤ upper and rows, which are added one by one.

    Attributes:
        costs: of each column.
        upper: of each column.
        integral: which columns take whole numbers only; none where empty.
    """

    costs: Vector
    upper: Vector
    integral: Sequence[bool] = ()
    _columns: list[int] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)
    _starts: list[int] = field(default_factory=lambda: [0])
    _low: list[float] = field(default_factory=list)
    _high: list[float] = field(default_factory=list)

    def row(self, terms: Sequence[tuple[int, float]], low: float = -INFINITY, high: float = INFINITY) -> None:
        """Adds low ≤ Σ value · x[column] ≤ high."""
        self._columns += [column for column, _ in terms]
        self._values += [value for _, value in terms]
        self._starts.append(len(self._columns))
        self._low.append(low)
        self._high.append(high)

    def solve(self, time_limit_s: float) -> Outcome:
        """Solves on one thread, so that the answer is the same every time."""
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", 0),
            ("mip_rel_gap", MIP_GAP),
            ("time_limit", max(time_limit_s, 0.0)),
        ):
            solver.setOptionValue(option, value)
        solver.passModel(self._model())
        solver.run()
        info, solution = solver.getInfo(), solver.getSolution()
        optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return Outcome(
            x=np.array(solution.col_value) if info.primal_solution_status else None,
            prices=np.array(solution.row_dual),
            value=info.objective_function_value,
            bound=info.mip_dual_bound if any(self.integral) else info.objective_function_value if optimal else INFINITY,
            optimal=optimal,
        )

    def _model(self) -> highspy.HighsLp:
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self.costs), len(self._low)
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_, model.col_lower_, model.col_upper_ = self.costs, np.zeros(len(self.costs)), self.upper
        model.row_lower_, model.row_upper_ = np.array(self._low), np.array(self._high)
        matrix = model.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_, matrix.index_ = np.array(self._starts), np.array(self._columns, dtype=np.int32)
        matrix.value_ = np.array(self._values, dtype=np.float64)
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[whole] for whole in self.integral]
        return model


@dataclass(frozen=True)
class Outcome:
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
