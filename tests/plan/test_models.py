"""Shapes, by the numbers of parameters that are published for these models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torch
from wiresum.errors import PlanError
from wiresum.plan.models import MODELS, Parameter, count, equal_parts, from_module, sub_models

PUBLISHED = {
    "alexnet": 61_100_840,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "densenet121": 7_978_856,
    "densenet169": 14_149_480,
    "densenet201": 20_013_928,
    "gpt2": 124_439_808,
    "gpt2-large": 774_030_080,
    "gpt2-medium": 354_823_168,
    "gpt2-xl": 1_557_611_200,
    "inception-v3": 27_161_264,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "vgg11": 132_863_336,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "dlrm": 155_984 + 320_001,
    "deepfm": 14 + 273 * 400 + 400 + 2 * (400 * 400 + 400) + 401,
    "ncf": 65_792 + 32_896 + 8_256 + 129,
    "lr": 14,
    "fm": 14,
}


def test_parameter_counts_are_the_published_ones():
    assert {name: count(make()) for name, make in MODELS.items()} == PUBLISHED


@pytest.mark.parametrize("name", MODELS)
def test_every_tensor_has_a_name_of_its_own(name):
    names = [parameter.name for parameter in MODELS[name]()]
    assert len(set(names)) == len(names)


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=30),
    st.none() | st.integers(4, 800),
    st.integers(0, 2000),
)
def test_parts_keep_every_byte_and_the_limit(sizes, split_bytes, group_bytes):
    parameters = [Parameter(f"layer{i}.weight", (size,)) for i, size in enumerate(sizes)]
    parts = sub_models(parameters, split_bytes, group_bytes)
    assert sum(part.bytes for part in parts) == 4 * sum(sizes)
    assert len({part.name for part in parts}) == len(parts)
    if split_bytes is not None:
        assert max(part.bytes for part in parts) <= split_bytes


def test_a_module_gives_its_layers():
    shared = torch.nn.Linear(3, 3)
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), shared, torch.nn.ReLU(), shared)
    module[0].bias.requires_grad_(False)
    assert [(part.name, part.bytes) for part in sub_models(from_module(module))] == [("0", 24), ("1", 48)]


def test_what_has_no_parts_is_named():
    with pytest.raises(PlanError, match="no parameters"):
        sub_models(from_module(torch.nn.ReLU()))
    with pytest.raises(PlanError, match="cannot have 9 parts"):
        equal_parts("x", 32, 9)
    with pytest.raises(PlanError, match="hold no value"):
        sub_models(MODELS["alexnet"](), split_bytes=3)


def test_equal_parts_differ_by_a_value():
    assert [part.bytes for part in equal_parts("x", 40, 3)] == [16, 12, 12]
