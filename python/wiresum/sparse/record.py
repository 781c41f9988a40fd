"""Drawn traces as files, for programs that replay them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wiresum.errors import TraceError
from wiresum.sparse.trace import Trace


def write(path: Path, spec: str, trace: Trace, workers: int, rounds: range) -> None:
    """Writes the distinct keys that each worker pushes, as arrays in NumPy's format `npz`.

    `keys` has them one after the other, ascending for each round and worker; `ends` (rounds × workers) says where those
    of each end; `workers`, `rounds` and `spec` say what was drawn, and `first_keys` where each table begins.

    Raises:
        TraceError: the file cannot be written.
    """
    pushed = [trace.pushed(round, worker, workers) for round in rounds for worker in range(workers)]
    ends = np.cumsum([len(one) for one in pushed])
    try:
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                keys=np.concatenate(pushed),
                ends=ends,
                workers=np.array(workers),
                rounds=np.array([rounds.start, rounds.stop]),
                spec=np.array(spec),
                first_keys=trace.first_keys,
            )
    except OSError as refused:
        raise TraceError(f"{path}: cannot be written ({refused}); give another path") from None
