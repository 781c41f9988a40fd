"""`shard_embeddings` keeps each property of a model exactly, or refuses the model by name and changes nothing."""

from __future__ import annotations

import copy
import functools
import json
import random
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from row_servers import Servers
from sharded_model import sharded, step
from torch.nn.parallel import DataParallel
from torch.nn.utils import parametrizations, parametrize, prune, weight_norm

import torch
from torch import nn
from wiresum.errors import SparseError
from wiresum.sparse.client import SparseClient
from wiresum.torch.sparse import ShardedEmbedding, ShardedEmbeddingBag, job_tables, shard_embeddings

pytestmark = pytest.mark.filterwarnings("ignore:.*:FutureWarning")
"""Old ways to change a weight are tried, too."""

ROWS, WIDTH = 12, 4
SETTINGS: dict[str, Any] = {"optimizer": torch.optim.SGD, "optimizer_kwargs": {"lr": 0.1}}
BATCHES = [torch.tensor([[1, 2], [2, 2], [7, 1]]), torch.tensor([[2, 3], [0, 11], [7, 7]])]
SEEDS, PARTS = range(2), 4
"""Seeds of the random combinations, and parts into which each divides the properties that are kept."""
SETTINGS_OF_DOUBLE: dict[str, Any] = {"optimizer": torch.optim.SGD, "kwargs": {"lr": 0.1}}


class Model(nn.Module):
    """An embedding, a bag, and a layer whose weight has the shape of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(ROWS, WIDTH, padding_idx=2)
        self.bag = nn.EmbeddingBag(ROWS, WIDTH, mode="sum")
        self.out = nn.Linear(WIDTH, ROWS, bias=False)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(self.words(input).sum(dim=1) + self.bag(input))
        return result


class Twice(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return 2 * weight


class Scaled(nn.Embedding):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


class Noted(nn.EmbeddingBag):
    note = "a program reads it"


def ignore(*_arguments: Any) -> None:
    """A hook that changes nothing."""


def put(model: Model, name: str, value: Any) -> None:
    setattr(model, name, value)


def replace(model: Model, name: str, module: nn.Module) -> None:
    model._modules[name] = module


def looked_up_by(module: nn.Module) -> Callable[[torch.Tensor], Any]:
    def look_up(input: torch.Tensor) -> Any:
        return module(input)

    return look_up


def set_weight(model: Model, weight: torch.Tensor) -> None:
    model.words._parameters["weight"] = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight)


def neighbors(model: Model) -> None:
    """Have two weights lie in one storage, one after the other."""
    storage = torch.randn(2 * ROWS, WIDTH)
    set_weight(model, storage[:ROWS])
    model.register_buffer("other", storage[ROWS:])


Change = Callable[[Model], Any]
OWNERS: dict[str, tuple[Change, str]] = {
    "tied": (lambda m: put(m.out, "weight", m.words.weight), "`words.weight` is also `out.weight`"),
    "tied bag": (lambda m: put(m.bag, "weight", m.words.weight), "`words.weight` is also `bag.weight`"),
    "list": (lambda m: put(m, "all", nn.ParameterList([m.words.weight])), "`words.weight` is also `all.0`"),
    "parameter": (lambda m: m.register_parameter("own", m.bag.weight), "`bag.weight` is also `own`"),
    "same memory": (lambda m: put(m.out, "weight", nn.Parameter(m.words.weight.data)), "memory with `out.weight`"),
    "one row": (lambda m: m.register_buffer("row", m.bag.weight.data[3]), "memory with `row`"),
    "hidden buffer": (lambda m: m.register_buffer("b", m.bag.weight.data, persistent=False), "memory with `b`"),
    "attribute": (lambda m: put(m, "cache", (m.words.weight,)), "`words.weight` is also in `cache`"),
    "array": (lambda m: put(m, "cache", {"a": m.words.weight.detach().numpy()}), "memory with `cache`"),
    "module in a list": (lambda m: put(m, "tables", [m.words]), "`words` is also in `tables`"),
    "hidden parent": (lambda m: put(m, "hidden", [nn.Sequential(m.words)]), "`words` is also `hidden.0`"),
    "method": (lambda m: put(m, "look", m.words.forward), "`words` is also in `look`"),
    "closure": (lambda m: put(m, "look", looked_up_by(m.words)), "`words` is also in `look`"),
    "partial": (lambda m: put(m, "look", functools.partial(ignore, m.words.weight)), "is also in `look`"),
    "object": (lambda m: put(m.out, "state", SimpleNamespace(a=[m.bag])), "`bag` is also in `out.state`"),
    "hook elsewhere": (lambda m: m.out.register_forward_hook(looked_up_by(m.words)), "is also in `out._forward_hooks`"),
    "optimizer inside": (lambda m: put(m, "sgd", torch.optim.SGD(m.parameters())), "is also in `sgd`"),
    "wrapped part": (
        lambda m: replace(m, "words", nn.Sequential(DataParallel(m.words))),
        "`words.0` is a DataParallel",
    ),
}
HOOKS: dict[str, tuple[Change, str]] = {
    "forward": (lambda m: m.words.register_forward_hook(ignore), "it has a forward hook"),
    "forward pre": (lambda m: m.words.register_forward_pre_hook(ignore), "it has a forward pre hook"),
    "backward": (lambda m: m.words.register_backward_hook(ignore), "it has a backward hook"),
    "full backward": (lambda m: m.bag.register_full_backward_hook(ignore), "it has a backward hook"),
    "backward pre": (lambda m: m.bag.register_full_backward_pre_hook(ignore), "it has a backward pre hook"),
    "state": (lambda m: m.words._register_state_dict_hook(ignore), "it has a state dict hook"),
    "state post": (lambda m: m.words.register_state_dict_post_hook(ignore), "it has a state dict hook"),
    "state pre": (lambda m: m.words.register_state_dict_pre_hook(ignore), "it has a state dict pre hook"),
    "load pre": (lambda m: m.words.register_load_state_dict_pre_hook(ignore), "it has a load state dict pre hook"),
    "load post": (lambda m: m.words.register_load_state_dict_post_hook(ignore), "a load state dict post hook"),
    "gradient": (lambda m: m.words.weight.register_hook(ignore), "`words.weight` has a gradient hook"),
    "accumulated": (lambda m: m.bag.weight.register_post_accumulate_grad_hook(ignore), "a post-accumulate-grad hook"),
}
WEIGHTS: dict[str, tuple[Change, str]] = {
    "parametrized": (lambda m: parametrize.register_parametrization(m.words, "weight", Twice()), "a parametrization"),
    "orthogonal": (lambda m: parametrizations.orthogonal(m.words), "it has a parametrization"),
    "weight norm": (lambda m: weight_norm(m.words), "it has a parameter 'weight_g'"),
    "pruned": (lambda m: prune.l1_unstructured(m.words, "weight", 0.3), "it has a parameter 'weight_orig'"),
    "parameter": (lambda m: m.words.register_parameter("bias", nn.Parameter(torch.zeros(1))), "a parameter 'bias'"),
    "buffer": (lambda m: m.words.register_buffer("counts", torch.zeros(ROWS)), "it has a buffer 'counts'"),
    "not saved": (lambda m: m.bag.register_buffer("n", torch.zeros(1), persistent=False), "it has a buffer 'n'"),
    "child": (lambda m: m.words.add_module("inner", nn.Linear(1, 1)), "it has a child module 'inner'"),
    "no weight": (lambda m: m.words.register_parameter("weight", None), "its weight is a NoneType"),
    "frozen": (lambda m: m.words.weight.requires_grad_(False), "its weight is frozen"),
    "shape": (lambda m: set_weight(m, torch.zeros(ROWS + 1, WIDTH)), "num_embeddings and embedding_dim"),
    "padding": (lambda m: put(m.words, "padding_idx", -1), "padding_idx=-1 is not a row"),
    "gradient": (lambda m: m(BATCHES[0]).sum().backward(), "`words.weight` has a gradient"),
    "processes": (lambda m: m.share_memory(), "memory that processes share"),
    "marked": (lambda m: put(m.words.weight, "decay", 0.1), "`words.weight` has an attribute 'decay'"),
}
CLASSES: dict[str, tuple[Change, str]] = {
    "forward": (lambda m: replace(m, "words", Scaled(ROWS, WIDTH)), "it is a Scaled"),
    "bag": (lambda m: replace(m, "bag", Noted(ROWS, WIDTH)), "it is a Noted"),
    "own forward": (lambda m: put(m.words, "forward", ignore), "its attribute 'forward' replaces"),
    "compiled": (lambda m: put(m.words, "_compiled_call_impl", ignore), "its attribute '_compiled_call_impl' replaces"),
    "taken": (lambda m: put(m.words, "table", "users"), "a sharded module has another attribute 'table'"),
    "taken method": (lambda m: put(m.bag, "prefetch", 2), "a sharded module has another attribute 'prefetch'"),
}
OUTSIDE: dict[str, tuple[Change, str]] = {
    "optimizer": (lambda m: torch.optim.Adam(m.parameters()), r"an optimizer \(Adam\) already has `words.weight`"),
    "tied outside": (lambda m: nn.ParameterList([m.bag.weight]), "`bag.weight` is also `0` of a ParameterList outside"),
    "parent outside": (lambda m: nn.Sequential(m.words), "`words` is also `0` of a Sequential outside"),
    "wrapped": (DataParallel, "a module outside of the model is a DataParallel"),
}
REFUSED = {
    f"{kind} {name}": case
    for kind, cases in {"owner": OWNERS, "hook": HOOKS, "weight": WEIGHTS, "class": CLASSES}.items()
    for name, case in cases.items()
}
KEPT: dict[str, Change] = {
    "nothing": lambda m: None,
    "padding row": lambda m: put(m.words.weight.data[2], "data", m.words.weight.data[2].fill_(-1.25)),
    "evaluating": lambda m: m.eval(),
    "one evaluating": lambda m: m.words.eval(),
    "an attribute": lambda m: put(m.words, "note", {"source": [1, 2]}),
    "sparse": lambda m: put(m.words, "sparse", True),
    "two parents": lambda m: m.add_module("again", nn.ModuleList([m.words, nn.Identity()])),
    "deeper first": lambda m: m._modules.update({"a": nn.ModuleList([m.words]), **{"words": m._modules.pop("words")}}),
    "twice": lambda m: m.add_module("words_too", m.words),
    "hooks of others": lambda m: m.out.register_forward_hook(lambda *arguments: 3 * arguments[2]),
    "hooks of the parent": lambda m: m.register_state_dict_post_hook(ignore),
    "tied others": lambda m: m.add_module("tied", copy.deepcopy(m.out)) or put(m.tied, "weight", m.out.weight),
    "buffers of others": lambda m: m.out.register_buffer("scale", torch.ones(2), persistent=False),
    "frozen others": lambda m: m.add_module("fixed", nn.Linear(2, 2).requires_grad_(False)),
    "a neighbor in memory": neighbors,
    "transposed": lambda m: set_weight(m, torch.randn(WIDTH, ROWS).t()),
    "loaded by Transformers": lambda m: put(m.words.weight, "_is_hf_initialized", True),
    "itself": lambda m: put(m, "mirror", [weakref.ref(m), m.forward]),
}


def photo(model: nn.Module) -> list[Any]:
    """Everything that a refusal must not change: which objects a model has, and the bits of its tensors."""
    parts: list[Any] = [torch.get_rng_state().tolist()]
    for name, module in model.named_modules(remove_duplicate=False):
        for key, each in vars(module).items():
            inside = [*each, *map(id, each.values())] if isinstance(each, dict) else []
            parts.append((name, id(module), type(module), key, id(each), inside))
    for name, each in model.named_parameters(remove_duplicate=False):
        bits = each.detach().numpy().tobytes()
        parts.append((name, id(each), each._version, each.requires_grad, id(each.grad), vars(each).copy(), bits))
    return parts


def refuse(model: nn.Module, words: str, *, names: list[str] | None = None) -> None:
    """Assert that a model is refused with these words, whatever the job, and that nothing has changed."""
    before = photo(model)
    client = SparseClient(Servers({}, torch.optim.SGD))
    with pytest.raises(SparseError, match=words) as refused:
        shard_embeddings(model, "{}", client=client, names=names, **SETTINGS)
    assert photo(model) == before
    assert str(refused.value).startswith("module '")
    assert "choose other modules with names=" in str(refused.value)


@pytest.mark.parametrize("name", REFUSED)
def test_rejects_a_property_by_name_and_changes_nothing(name: str) -> None:
    model = Model()
    change, words = REFUSED[name]
    _alive = change(model)
    refuse(model, words)
    with pytest.raises(SparseError, match=words):
        job_tables(model, **SETTINGS)


@pytest.mark.parametrize("name", OUTSIDE)
def test_rejects_an_owner_outside_until_it_is_gone(name: str) -> None:
    model = Model()
    change, words = OUTSIDE[name]
    alive = change(model)
    refuse(model, words)
    del alive
    sharded(model, **SETTINGS_OF_DOUBLE)[1].close()


def test_names_leave_out_a_module_that_cannot_be_sharded() -> None:
    model = Model()
    model.out.weight = model.words.weight
    job = json.dumps({"tables": job_tables(model, names=["bag"], **SETTINGS)})
    client = SparseClient(Servers({"bag": model.bag.weight.detach()}, torch.optim.SGD, lr=0.1))
    shard_embeddings(model, job, names=["bag"], client=client, **SETTINGS).close()
    assert model.out.weight is model.words.weight
    assert not isinstance(model.bag, nn.EmbeddingBag)
    with pytest.raises(SparseError, match="the model has no embedding"):
        job_tables(model, names=["out"], **SETTINGS)


def keep(changes: list[str]) -> None:
    """Assert that a sharded model trains as a plain one with the same properties, and has all of them."""
    torch.manual_seed(1)
    model = Model()
    for name in changes:
        KEPT[name](model)
    plain = copy.deepcopy(model)
    others = {name: each for name, each in model.named_modules(remove_duplicate=False) if each is not model.words}
    before = vars(model.words).copy()
    _, rows, _ = sharded(model, **SETTINGS_OF_DOUBLE)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, plain)]
    with rows:
        assert model.state_dict().keys() == plain.state_dict().keys()
        for batch in BATCHES * 2:
            assert step(model, batch, optimizers[0]) == pytest.approx(step(plain, batch, optimizers[1]), rel=1e-5)
        torch.testing.assert_close(model.state_dict(), plain.state_dict(), rtol=1e-5, atol=1e-6)
        model.load_state_dict(plain.state_dict())
        torch.testing.assert_close(model.state_dict(), plain.state_dict(), rtol=0, atol=0)
    same_parts(model, plain, others, before)


def same_parts(model: Model, plain: Model, others: dict[str, nn.Module], before: dict[str, Any]) -> None:
    modules = dict(model.named_modules(remove_duplicate=False))
    for name, each in plain.named_modules(remove_duplicate=False):
        assert modules[name].training == each.training
        if name in others and not isinstance(each, nn.EmbeddingBag):
            assert modules[name] is others[name]
        if isinstance(each, nn.Embedding):
            assert modules[name] is model.words
    assert isinstance(model.words, ShardedEmbedding)
    for name, value in before.items():
        if name not in vars(nn.Module()):
            assert vars(model.words)[name] is value
    assert isinstance(model.bag, ShardedEmbeddingBag)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("part", range(PARTS))
def test_keeps_random_combinations(seed: int, part: int) -> None:
    """For each seed every property is in one part."""
    drawn = random.Random(seed).sample(sorted(KEPT), len(KEPT))
    keep(drawn[part::PARTS])


@pytest.mark.parametrize("seed", range(24))
def test_rejects_random_combinations(seed: int) -> None:
    """A property that is refused has the model refused, whatever its other properties are."""
    drawn = random.Random(seed)
    model = Model()
    for name in drawn.sample(sorted(KEPT), 3):
        KEPT[name](model)
    change, _ = REFUSED[drawn.choice(sorted(REFUSED))]
    _alive = change(model)
    refuse(model, "cannot be sharded")


def test_code_that_reads_the_weight_is_told_where_it_is() -> None:
    model = Model()
    with sharded(model, **SETTINGS_OF_DOUBLE)[1]:
        with pytest.raises(AttributeError, match="table words: its rows live at servers, so the module has no weight"):
            _ = model.words.weight
        assert not hasattr(model.words, "bias")
