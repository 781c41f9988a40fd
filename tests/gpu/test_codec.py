"""The codec's Triton kernels give the bits of `crates/codec`: interpreted, and on a GPU where there is one."""

import numpy as np
import pytest

import torch
from wiresum import _native, gpu

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ELEMENTS = [torch.float32, torch.float16, torch.bfloat16]
FORMATS = [(32, False, None), (32, True, None), (16, False, None), (16, True, None), (32, False, 1e4), (16, True, 3.7)]
NOT_FINITE = 2**31 - 1


def values_of(element: torch.dtype, count: int, seed: int) -> torch.Tensor:
    """Floats of all sizes that differ from fragment to fragment, zeros and subnormals among them."""
    random = torch.Generator().manual_seed(seed)
    spread = {torch.float32: 60.0, torch.float16: 10.0, torch.bfloat16: 60.0}[element]
    sizes = torch.exp2((torch.rand(count, generator=random, dtype=torch.float64) - 0.5) * spread)
    found = (torch.randn(count, generator=random, dtype=torch.float64) * sizes).to(element)
    found[torch.rand(count, generator=random) < 0.05] = 0
    tiny = torch.rand(count, generator=random) < 0.05
    found[tiny] = torch.finfo(element).smallest_normal / 8
    return found


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().cpu().view(torch.uint8).numpy().tobytes()


def named(form) -> tuple[str, str, int]:
    codec = "block" if form.factor is None else f"fixed:{form.factor:e}"
    return codec, f"int{form.lane_bits}-{'be' if form.big_endian else 'le'}", form.workers


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
@pytest.mark.parametrize("lanes", FORMATS, ids=str)
@pytest.mark.parametrize(("count", "fragment", "workers"), [(1000, 256, 4), (1, 64, 1), (2208, 736, 5), (700, 96, 128)])
def test_lanes_sums_and_values_have_the_bits_of_the_rust_codec(element, lanes, count, fragment, workers):
    form = gpu.LaneFormat(workers, *lanes)
    values = values_of(element, count, seed=count + workers)
    name, job = str(element).removeprefix("torch."), named(form)
    proposals = gpu.exponents(values.to(DEVICE), fragment, form)
    assert proposals.tolist() == _native.codec_exponents(raw(values), name, fragment, job)

    agreed = [min(e, 127) if e != NOT_FINITE else 0 for e in proposals.tolist()]
    exponents = torch.tensor(agreed, dtype=torch.int8, device=DEVICE)
    encoded, sums = gpu.encode(values.to(DEVICE), exponents, fragment, form)
    expected, expected_sums = _native.codec_encode(raw(values), name, agreed, fragment, job)
    assert raw(encoded) == expected
    assert np.array_equal(sums.cpu().numpy().view(np.uint32), expected_sums)

    for average in (False, True):
        decoded = torch.full((count,), float("nan"), dtype=element, device=DEVICE)
        gpu.decode(encoded, exponents, decoded, form, divisor=workers if average else 1.0)
        assert raw(decoded) == _native.codec_decode(expected, name, agreed, count, job, average)


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_what_is_not_finite_is_said_of_its_own_fragment_alone(element, value):
    values = torch.ones(512, dtype=element)
    values[300] = value
    assert gpu.exponents(values.to(DEVICE), 128, gpu.LaneFormat(4)).tolist() == [0, 0, NOT_FINITE, 0]


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # that of the interpreter: it is Inf, as asked
def test_results_of_any_lanes_are_narrowed_as_the_rust_codec_narrows_them():
    random = torch.Generator().manual_seed(7)
    lanes = torch.randint(-(2**31), 2**31, (8, 256), generator=random, dtype=torch.int64).to(torch.int32)
    agreed = [-128, -120, -30, -14, 0, 5, 15, 127]
    form = gpu.LaneFormat(3)
    for element in ELEMENTS:
        decoded = torch.empty(2048, dtype=element, device=DEVICE)
        gpu.decode(lanes.to(DEVICE), torch.tensor(agreed, dtype=torch.int8, device=DEVICE), decoded, form)
        name = str(element).removeprefix("torch.")
        assert raw(decoded) == _native.codec_decode(raw(lanes), name, agreed, 2048, named(form))
