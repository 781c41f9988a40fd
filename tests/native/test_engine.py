from __future__ import annotations

import ctypes
import json
import queue
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wiresum import _native, errors

HEADER = Path(__file__).parents[2] / "python/wiresum/torch/csrc/engine_abi.h"


def values(rank: int, elements: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Small whole numbers, whose sums every element type holds exactly."""
    return ((np.arange(elements) * 7 + rank * 3) % 41 - 20).astype(dtype)


@pytest.mark.parametrize("lanes", ["int32-le", "int16-le"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("elements", [1, 255, 257, 40_000])
def test_sums_are_exact_on_every_rank(start_job: Any, lanes: str, dtype: Any, elements: int) -> None:
    job = start_job(3, lanes)
    arrays = [values(rank, elements, dtype) for rank in job.ranks]
    expected = np.sum([array.astype(np.int64) for array in arrays], axis=0)
    assert job.on_each_rank(lambda rank: job.engines[rank].all_reduce(arrays[rank])) == [None] * 3
    for array in arrays:
        np.testing.assert_array_equal(array, expected.astype(dtype))


def test_average_of_a_matrix(start_job: Any) -> None:
    job = start_job(2)
    arrays = [np.full((3, 5), rank + 1, np.float32) for rank in job.ranks]
    assert job.on_each_rank(lambda rank: job.engines[rank].all_reduce(arrays[rank], op="avg")) == [None] * 2
    np.testing.assert_array_equal(arrays[0], np.full((3, 5), 1.5, np.float32))


def test_statistics_tell_what_was_done(start_job: Any) -> None:
    job = start_job(2)
    arrays = [np.ones(5000, np.float32) for _ in job.ranks]
    job.on_each_rank(lambda rank: job.engines[rank].all_reduce(arrays[rank]))
    statistics = job.engines[0].statistics()
    assert statistics["collectives_summed"] == 1
    assert statistics["bytes_sent"] > arrays[0].nbytes
    assert statistics["bytes_received"] > arrays[0].nbytes
    assert statistics["cpu_seconds"] > 0
    assert statistics["busy_seconds"] > 0
    job.engines[0].close()
    assert job.engines[0].statistics()["collectives_summed"] == 1


def test_not_finite_leaves_every_array_untouched(start_job: Any) -> None:
    job = start_job(2)
    arrays = [np.ones(1000, np.float32) for _ in job.ranks]
    arrays[1][999] = np.nan
    before = [array.copy() for array in arrays]
    outcomes = job.on_each_rank(lambda rank: job.engines[rank].all_reduce(arrays[rank]))
    assert [type(outcome) for outcome in outcomes] == [errors.NotFiniteError] * 2
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_mismatch_names_the_sizes(start_job: Any) -> None:
    job = start_job(2)
    arrays = [np.ones(10 + 5 * rank, np.float32) for rank in job.ranks]
    for outcome in job.on_each_rank(lambda rank: job.engines[rank].all_reduce(arrays[rank])):
        assert isinstance(outcome, errors.MismatchError)
        assert re.search(r"rank 0: all_reduce of 10 .*rank 1: all_reduce of 15 ", str(outcome))


def test_other_element_types_are_a_mismatch(start_job: Any) -> None:
    job = start_job(2)
    arrays = [np.ones(10, np.float32), np.ones(10, np.float16)]
    for outcome in job.on_each_rank(lambda rank: job.engines[rank].all_reduce(arrays[rank])):
        assert isinstance(outcome, errors.MismatchError)


def test_timeout_names_the_missing_worker(start_job: Any) -> None:
    job = start_job(2)
    with pytest.raises(errors.CollectiveTimeoutError, match="w1"):
        job.engines[0].all_reduce(np.ones(10, np.float32), timeout_s=1.0)
    with pytest.raises(errors.CollectiveTimeoutError, match="w1"):
        job.engines[0].all_reduce(np.ones(10, np.float32))


def test_closed_engine_refuses(start_job: Any) -> None:
    job = start_job(1)
    with job.engines[0] as engine:
        engine.all_reduce(np.ones(10, np.float32))
    with pytest.raises(errors.ClosedError):
        engine.all_reduce(np.ones(10, np.float32))


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.ones(4, np.float64), TypeError, "float32"),
        (np.ones(4, ">f4"), TypeError, ">f"),
        (np.ones(4, np.int32), TypeError, "float32"),
        ([1.0, 2.0], TypeError, "buffer|bytes-like"),
        (np.ones(0, np.float32), ValueError, "empty"),
        (np.ones(8, np.float32)[::2], ValueError, "contiguous"),
        (np.frombuffer(b"\0" * 8, np.float32), ValueError, "read-only"),
        (np.frombuffer(bytearray(9), np.uint8)[1:].view(np.float32), ValueError, "aligned"),
    ],
)
def test_arrays_that_cannot_be_summed(start_job: Any, array: Any, error: type[Exception], message: str) -> None:
    engine = start_job(1).engines[0]
    with pytest.raises(error, match=message):
        engine.all_reduce(array)


def test_arguments_that_make_no_sense(start_job: Any) -> None:
    engine = start_job(1).engines[0]
    with pytest.raises(ValueError, match="`max`"):
        engine.all_reduce(np.ones(1, np.float32), op="max")
    with pytest.raises(ValueError, match="timeout"):
        engine.all_reduce(np.ones(1, np.float32), timeout_s=-1)


def test_nobody_answers(unanswered_plan: dict[str, Any]) -> None:
    with pytest.raises(errors.JoinError, match=r"wiresum-node running"):
        _native.Engine(json.dumps(unanswered_plan), 0, 1, timeout_s=0.3)


def test_unknown_rank_is_an_error_of_the_plan(unanswered_plan: dict[str, Any]) -> None:
    with pytest.raises(errors.PlanError, match="rank 7"):
        _native.Engine(json.dumps(unanswered_plan), 7, 1)


DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)


class Collective(ctypes.Structure):
    """`struct wiresum_collective`, written down again: the test is of the C interface as C sees it."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("root", ctypes.c_uint32),
        ("source", ctypes.c_void_p),
        ("sink", ctypes.c_void_p),
        ("elements", ctypes.c_uint64),
        ("element_type", ctypes.c_uint32),
        ("operation", ctypes.c_uint32),
        ("timeout_us", ctypes.c_uint64),
        ("bits", ctypes.c_uint32),
        ("seed", ctypes.c_uint32),
        ("kept", ctypes.c_void_p),
        ("aside", ctypes.c_void_p),
        ("done", DONE),
        ("context", ctypes.c_void_p),
    )


class EngineAbi(ctypes.Structure):
    """`struct wiresum_engine_abi`."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("engine", ctypes.c_void_p),
        ("submit", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(Collective))),
    )


def header_version() -> int:
    found = re.search(r"WIRESUM_ENGINE_ABI_VERSION (\d+)", HEADER.read_text())
    assert found is not None
    return int(found[1])


def interface(engine: Any) -> tuple[Any, EngineAbi]:
    """The capsule, which has to be kept, and what it points to."""
    name = re.search(r'WIRESUM_ENGINE_CAPSULE "(.*)"', HEADER.read_text())
    assert name is not None
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = engine.abi()
    return capsule, EngineAbi.from_address(get_pointer(capsule, name[1].encode()))


def test_c_interface_sums_bfloat16(start_job: Any) -> None:
    """NumPy has no bfloat16: its bits are the upper half of float32's."""
    job = start_job(2)

    told: list[queue.Queue[tuple[int, bytes]]] = [queue.Queue() for _ in job.ranks]

    def reduce(rank: int) -> tuple[int, bytes, list[float]]:
        capsule, abi = interface(job.engines[rank])
        assert abi.version == header_version()
        array = (np.array([1.0, -2.5, 64.0], np.float32) * (rank + 1)).view(np.uint32) >> 16
        array = array.astype(np.uint16)
        done = DONE(lambda _context, outcome, message: told[rank].put((outcome, message)))
        collective = Collective(
            0, 0, array.ctypes.data, array.ctypes.data, 3, 2, 0, 10_000_000, 0, 0, None, None, done, None
        )
        assert abi.submit(abi.engine, ctypes.byref(collective)) == 0
        outcome, message = told[rank].get(timeout=30)
        del capsule
        return outcome, message, (array.astype(np.uint32) << 16).view(np.float32).tolist()

    assert job.on_each_rank(reduce) == [(0, b"", [3.0, -7.5, 192.0])] * 2


def test_capsule_keeps_the_engine_open(start_job: Any) -> None:
    job = start_job(1)
    capsule, abi = interface(job.engines[0])
    job.engines.clear()
    done = DONE(lambda *_: None)
    collective = Collective(0, 0, None, None, 1, 0, 0, 1, 0, 0, None, None, done, None)
    assert abi.submit(abi.engine, ctypes.byref(collective)) == 2
    del capsule
