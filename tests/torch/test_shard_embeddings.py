"""Sharded embeddings train as plain ones do: against `torch.optim` in one process, with a double of the servers."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch.distributed as dist
from row_servers import Servers
from sharded_model import OPTIMIZERS, PADDING, ROWS, STEPS, WIDTH, Model, batches, sharded, step, tables_of
from torch.nn.parallel import DistributedDataParallel
from world import World

import torch
import wiresum.torch.sparse
from torch import nn
from wiresum.errors import SparseError
from wiresum.sparse.client import SparseClient
from wiresum.torch.sparse import (
    ShardedEmbedding,
    ShardedEmbeddingBag,
    job_tables,
    shard_embeddings,
    sharded_state_dict,
)

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
"""Torch's own optimizers make sparse tensors without saying whether indices are to be looked at."""


def twins(mode: str = "sum") -> tuple[Model, Model]:
    plain, other = Model(mode), Model(mode)
    other.load_state_dict(plain.state_dict())
    return plain, other


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("mode", ["sum", "mean", "weighted"])
def test_it_trains_as_the_plain_model_does(mode: str, optimizer: type[torch.optim.Optimizer]) -> None:
    torch.manual_seed(0)
    kwargs = OPTIMIZERS[optimizer]
    plain, other = twins("sum" if mode == "weighted" else mode)
    stepped = optimizer(list(tables_of(plain).values()), **kwargs)
    model, rows, _ = sharded(other, optimizer, kwargs)
    assert [name for name, _ in model.named_parameters()] == ["dense.weight", "dense.bias"]
    dense = [torch.optim.SGD(each.dense.parameters(), lr=0.1) for each in (plain, other)]
    with rows:
        for batch in batches(weighted=mode == "weighted"):
            assert step(model, batch, dense[1]) == pytest.approx(step(plain, batch, stepped, dense[0]), rel=1e-5)
        expected, exported = plain.state_dict(), model.state_dict()
        assert exported.keys() == expected.keys()
        for name, weight in expected.items():
            torch.testing.assert_close(exported[name], weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda each: each.__name__)
def test_16_bit_tables_train_as_plain_ones_with_float32_masters(
    dtype: torch.dtype, optimizer: type[torch.optim.Optimizer]
) -> None:
    """Beside a plain 16-bit model whose tables are rounded from float32 before each forward."""
    torch.manual_seed(0)
    kwargs = OPTIMIZERS[optimizer]
    plain, other = (each.to(dtype) for each in twins())
    model, rows, servers = sharded(other, optimizer, kwargs)
    masters = {name: nn.Parameter(each.detach().float()) for name, each in tables_of(plain).items()}
    stepped = optimizer(list(masters.values()), **kwargs)
    with rows:
        for batch in batches(weighted=False):
            assert step(model, batch) == pytest.approx(step(plain, batch), rel=4 * torch.finfo(dtype).eps)
            for name, each in tables_of(plain).items():
                assert each.grad is not None
                masters[name].grad, each.grad = each.grad.float(), None
            stepped.step()
            set_back(plain, [each.detach().to(dtype) for each in masters.values()])
        saved, state = sharded_state_dict(model), model.state_dict()
    for ours, (name, theirs) in zip(servers.weights, masters.items(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=8 * torch.finfo(dtype).eps)
        assert torch.equal(saved[f"{name}.weight"], ours)  # so that a job goes on bit for bit
        assert torch.equal(state[f"{name}.weight"], ours.detach().to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_16_bit_weights_of_a_plain_model_are_loaded(dtype: torch.dtype) -> None:
    plain = Model().to(dtype)
    model, rows, _ = sharded(Model().to(dtype), torch.optim.SGD, {"lr": 0.1})
    with rows:
        model.load_state_dict(plain.state_dict())
        torch.testing.assert_close(model.state_dict(), plain.state_dict(), rtol=0, atol=0)


def under_ddp() -> None:
    torch.manual_seed(0)
    gloo = dist.new_group(backend="gloo")
    own = dist.new_group(backend="gloo")  # rounds end beside what DDP sums
    plain, other = twins()
    stepped = torch.optim.Adagrad(list(tables_of(plain).values()), lr=0.05)
    _, rows, servers = sharded(other, torch.optim.Adagrad, {"lr": 0.05}, own)
    wrapped = [DistributedDataParallel(each, process_group=gloo) for each in (plain, other)]
    with pytest.raises(SparseError, match=r"the model is a DistributedDataParallel.*call shard_embeddings before"):
        job_tables(wrapped[0], torch.optim.Adagrad)
    dense = [torch.optim.SGD(each.dense.parameters(), lr=0.1) for each in (plain, other)]
    with rows:
        for batch in batches(weighted=False, seed=dist.get_rank()):
            expected = step(wrapped[0], batch, stepped, dense[0])
            assert step(wrapped[1], batch, dense[1]) == pytest.approx(expected, rel=1e-4)
    assert servers.version == STEPS
    for ours, theirs in zip(servers.weights, tables_of(plain).values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    for group in (gloo, own):
        dist.destroy_process_group(group)


def test_ddp_sums_the_dense_rest_while_rounds_end(mocked: World) -> None:
    mocked.run(under_ddp)


def test_maxima_of_bags_are_those_of_plain_ones() -> None:
    plain, other = twins("max")
    model, rows, servers = sharded(other, torch.optim.SGD, {"lr": 0.1})
    with rows:
        for batch in batches(weighted=False, count=2):
            torch.testing.assert_close(model(batch), plain(batch))
            step(plain, batch, torch.optim.SGD(plain.parameters(), lr=0.1))
            step(model, batch, torch.optim.SGD(other.dense.parameters(), lr=0.1))
        rows.wait()
        torch.testing.assert_close(servers.weights[1], plain.bag.weight)


def test_each_row_is_pulled_and_pushed_once_a_step_and_the_padding_never() -> None:
    _, other = twins()
    model, rows, servers = sharded(other, torch.optim.SGD, {"lr": 0.1})
    with rows:
        step(model, batches(weighted=False)[0])
        rows.wait()
    assert servers.calls == ["pull 0"] * 3 + ["push 0"] * 3 + ["round 1", "close"]
    for table, keys in servers.pulled:
        assert len(set(keys)) == len(keys)
        assert {0: 3, 1: 0}.get(table) not in keys


def test_prefetched_rows_are_those_after_the_step_under_way() -> None:
    torch.manual_seed(0)
    plain, other = twins()
    stepped = torch.optim.SGD(plain.parameters(), lr=0.1)
    model, rows, servers = sharded(other, torch.optim.SGD, {"lr": 0.1})
    dense = torch.optim.SGD(other.dense.parameters(), lr=0.1)
    first, second, *_ = batches(weighted=False)
    with rows:
        loss = (model(first) - 1).square().mean()
        for name in ("single", "bag", "ends"):
            getattr(other, name).prefetch(second[name])
        assert servers.calls == ["pull 0"] * 3  # not before the round is over
        loss.backward()
        dense.step()
        step(plain, first, stepped)
        rows.wait()
        pulled = model(second)
        assert servers.calls.count("pull 1") == 3  # and not again
        torch.testing.assert_close(pulled, plain(second))
        other.single.prefetch(first["single"])
        torch.testing.assert_close(model(second), plain(second))  # rows that are not those are pulled after all


def test_several_backwards_may_make_one_round() -> None:
    plain, other = twins()
    stepped = torch.optim.SGD(list(tables_of(plain).values()), lr=0.1)
    model, rows, servers = sharded(other, torch.optim.SGD, {"lr": 0.1})
    made = batches(weighted=False, count=3)
    with rows:
        with rows.accumulate():
            for batch in made[:2]:
                step(model, batch)
        step(model, made[2])
        rows.wait()
    for batch in made:
        (plain(batch) - 1).square().mean().backward()
    stepped.step()
    assert servers.version == 1
    torch.testing.assert_close(servers.weights[0], plain.single.weight)


def test_evaluation_and_inputs_without_elements_push_nothing() -> None:
    _, other = twins()
    model, rows, servers = sharded(other, torch.optim.SGD, {"lr": 0.1})
    with rows:
        with torch.no_grad():
            model(batches(weighted=False)[0])
        assert not any("push" in call for call in servers.calls)
        nothing = torch.empty(0, dtype=torch.int64)
        assert other.single(nothing).shape == (0, WIDTH)
        bags = other.bag(nothing, torch.zeros(2, dtype=torch.int64))
        assert torch.equal(bags, torch.zeros(2, WIDTH))
        bags.sum().backward()
        rows.wait()
        assert servers.version == 1  # the round ends, as it has to on every rank


def test_a_round_that_fails_is_raised_by_the_next_lookup() -> None:
    _, other = twins()
    model, rows, servers = sharded(other, torch.optim.SGD, {"lr": 0.1})
    batch = batches(weighted=False)[0]
    servers.fails = True
    step(model, batch)
    with pytest.raises(SparseError, match="server 0 is silent"):
        model(batch)
    rows.close()


@pytest.mark.parametrize("index", [-1, ROWS])
def test_an_index_out_of_range_names_the_table(index: int) -> None:
    _, other = twins()
    _, rows, servers = sharded(other, torch.optim.SGD, {"lr": 0.1})
    with rows, pytest.raises(SparseError, match=f"table single: index {index} is out of range for {ROWS} rows"):
        other.single(torch.tensor([1, index]))
    assert servers.calls == ["close"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint8])
def test_indices_that_are_no_whole_numbers_are_refused_as_plain_modules_refuse_them(dtype: torch.dtype) -> None:
    model, other = twins()
    indices = torch.tensor([0, 1]).to(dtype)
    with pytest.raises(RuntimeError):
        model.single(indices)
    _, rows, servers = sharded(other, torch.optim.SGD, {"lr": 0.1})
    with rows, pytest.raises(SparseError, match=f"table single: indices are {dtype}"):
        other.single(indices)
    assert servers.calls == ["close"]


def test_weights_of_a_plain_model_are_loaded() -> None:
    plain, batch = Model(), batches(weighted=False)[0]
    model, rows, _ = sharded(Model(), torch.optim.SGD, {"lr": 0.1})
    with rows:
        missing = model.load_state_dict(plain.state_dict())
        assert not missing.missing_keys
        assert not missing.unexpected_keys
        torch.testing.assert_close(model.state_dict(), plain.state_dict(), rtol=0, atol=0)
        torch.testing.assert_close(model(batch), plain(batch))


def test_padding_rows_keep_their_value_and_never_train() -> None:
    """Servers begin with zeros, so a padding row that is not zero comes from the module or from what was loaded."""
    plain = Model()
    model, rows, servers = sharded(Model(), torch.optim.SGD, {"lr": 0.1})
    padding = {"single": torch.tensor([[3]]), "bag": torch.tensor([[0]])}
    for each in servers.weights:
        each.data.zero_()
    with rows:
        for value in (PADDING, -2.5):
            assert model.single(padding["single"]).unique().tolist() == [value]
            model(batches(weighted=False)[0]).sum().backward()
            for state in (model.state_dict(), sharded_state_dict(model)):
                for name, row in padding.items():
                    assert state[f"{name}.weight"][row].unique().tolist() == [value]
            plain.single.weight.data[3] = plain.bag.weight.data[0] = -2.5
            model.load_state_dict(plain.state_dict())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bag.weight": torch.zeros(ROWS + 1, WIDTH)}, f"bag.weight: the table has {ROWS} rows of {WIDTH}"),
        ({"bag.optimizer_state": torch.zeros(ROWS, 1)}, "the state is not that of sgd"),
        ({"bag.bias": torch.zeros(WIDTH)}, r"Unexpected key\(s\) in state_dict: \"bag.bias\""),
    ],
)
def test_what_does_not_fit_is_not_loaded(change: dict[str, torch.Tensor], words: str) -> None:
    model, rows, servers = sharded(Model(), torch.optim.SGD, {"lr": 0.1})
    with rows, pytest.raises(RuntimeError, match=words):
        model.load_state_dict(Model().state_dict() | change)
    assert servers.version <= 1


def test_delayed_rows_are_those_of_exactly_so_many_rounds_before() -> None:
    """Beside a plain model whose tables are set back to what they were before each forward."""
    delay = 2
    plain, other = twins()
    made = batches(weighted=False, count=6)
    model, rows, _ = sharded(other, torch.optim.SGD, {"lr": 0.1}, delay=delay)
    dense = [torch.optim.SGD(each.dense.parameters(), lr=0.1) for each in (plain, other)]
    stepped = torch.optim.SGD(list(tables_of(plain).values()), lr=0.1)
    versions = [copies(plain)]
    with rows:
        for batch in made[:delay]:
            prefetch(other, batch)
        for number, batch in enumerate(made):
            if number + delay < len(made):
                prefetch(other, made[number + delay])
            set_back(plain, versions[max(0, number - delay)])
            loss = (plain(batch) - 1).square().mean()
            for each in (stepped, dense[0]):
                each.zero_grad()
            loss.backward()
            set_back(plain, versions[-1])
            stepped.step()
            dense[0].step()
            versions.append(copies(plain))
            assert step(model, batch, dense[1]) == pytest.approx(loss.item(), rel=1e-5)
        rows.wait()
        torch.testing.assert_close(model.state_dict(), plain.state_dict(), rtol=1e-5, atol=1e-6)


def copies(model: Model) -> list[torch.Tensor]:
    return [each.detach().clone() for each in tables_of(model).values()]


def set_back(model: Model, weights: list[torch.Tensor]) -> None:
    for each, weight in zip(tables_of(model).values(), weights, strict=True):
        each.data = weight.clone()


def prefetch(model: Model, batch: Any) -> None:
    for name in ("single", "bag", "ends"):
        getattr(model, name).prefetch(batch[name])


def test_with_a_delay_rows_have_to_be_prefetched() -> None:
    model, rows, servers = sharded(Model(), torch.optim.SGD, {"lr": 0.1}, delay=1)
    first, second, *_ = batches(weighted=False)
    with rows:
        step(model, first)  # rows of before the first round are there
        assert servers.version <= 1
        with pytest.raises(SparseError, match="table single: rows of 1 rounds before are gone; call `prefetch`"):
            model(second)
    with pytest.raises(SparseError, match="delay is -1 rounds; give 0 or more"):
        sharded(Model(), torch.optim.SGD, {"lr": 0.1}, delay=-1)


class JaggedTensor:
    """As TorchRec's, but for what is not needed."""

    def __init__(self, values: list[int], lengths: list[int], weights: list[float] | None = None) -> None:
        self._values, self._weights = torch.tensor(values), weights and torch.tensor(weights)
        self._offsets = torch.tensor([0, *lengths]).cumsum(0)

    def values(self) -> torch.Tensor:
        return self._values

    def offsets(self) -> torch.Tensor:
        return self._offsets

    def weights_or_none(self) -> torch.Tensor | None:
        return self._weights


@dataclass
class Config:
    """As TorchRec's `EmbeddingBagConfig`."""

    name: str
    feature_names: list[str]


class Collection(nn.Module):
    """Looks up as TorchRec's `EmbeddingBagCollection` does; two features share a table."""

    def __init__(self) -> None:
        super().__init__()
        bags = {name: nn.EmbeddingBag(ROWS, WIDTH, mode="sum", include_last_offset=True) for name in ("users", "ads")}
        self.embedding_bags = nn.ModuleDict(bags)

    def embedding_bag_configs(self) -> list[Config]:
        return [Config("users", ["user", "friend"]), Config("ads", ["ad"])]

    def forward(self, features: dict[str, JaggedTensor]) -> torch.Tensor:
        embedded = []
        for config in self.embedding_bag_configs():
            for feature in config.feature_names:
                one = features[feature]
                bag = self.embedding_bags[config.name]
                weights = one.weights_or_none()
                embedded.append(bag(input=one.values(), offsets=one.offsets(), per_sample_weights=weights))
        return torch.cat(embedded, dim=1)


FEATURES = {
    "user": JaggedTensor([1, 2, 3], [2, 0, 1]),
    "friend": JaggedTensor([3, 4, 1, 1], [1, 1, 2], [0.5, 2.0, 1.0, 0.25]),
    "ad": JaggedTensor([0, 5], [1, 0, 1]),
}


def test_collections_of_bags_train_unmodified_and_prefetch_by_feature() -> None:
    plain, other = Collection(), Collection()
    other.load_state_dict(plain.state_dict())
    model, rows, servers = sharded(other, torch.optim.SGD, {"lr": 0.1})
    stepped = torch.optim.SGD(plain.parameters(), lr=0.1)
    with rows:
        wiresum.torch.sparse.prefetch(other, FEATURES)
        for each in (plain, model):
            each(FEATURES).square().mean().backward()
        assert servers.calls.count("pull 0") == 3  # ahead of the lookups, and not again
        stepped.step()
        torch.testing.assert_close(model(FEATURES), plain(FEATURES))
    with pytest.raises(SparseError, match="Model is no collection of bags"):
        wiresum.torch.sparse.prefetch(Model(), FEATURES)


@pytest.mark.parametrize("include_last_offset", [False, True])
def test_bags_take_jagged_inputs(include_last_offset: bool) -> None:
    def bags() -> nn.Module:
        return nn.Sequential(nn.EmbeddingBag(ROWS, WIDTH, mode="sum", include_last_offset=include_last_offset))

    plain, other = bags(), bags()
    other.load_state_dict(plain.state_dict())
    model, rows, _ = sharded(other, torch.optim.SGD, {"lr": 0.1})
    one = FEATURES["friend"]
    offsets = one.offsets() if include_last_offset else one.offsets()[:-1]
    with rows:
        torch.testing.assert_close(model(one), plain[0](one.values(), offsets, one.weights_or_none()))


def frozen() -> nn.Embedding:
    return nn.Embedding.from_pretrained(torch.zeros(2, 2))


class Own(nn.Embedding):
    """A module of the program."""


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (lambda: nn.Embedding(5, 2, max_norm=1.0), "max_norm=1.0"),
        (lambda: nn.EmbeddingBag(5, 2, max_norm=1.0), "max_norm=1.0"),
        (lambda: nn.EmbeddingBag(5, 2, scale_grad_by_freq=True), "scale_grad_by_freq=True"),
        (frozen, "frozen"),
        (lambda: nn.Embedding(5, 2, dtype=torch.float64), "float64, and rows are torch.float32, torch.float16"),
        (lambda: Own(5, 2), "it is a Own"),
        (lambda: nn.Linear(2, 2), "no embedding to shard"),
    ],
)
def test_what_servers_do_not_know_is_refused_by_name(module: Callable[[], nn.Module], words: str) -> None:
    with pytest.raises(SparseError, match=words):
        job_tables(nn.Sequential(module()), torch.optim.SGD)


def test_the_whole_model_and_unknown_names_are_refused() -> None:
    with pytest.raises(SparseError, match="the whole model"):
        job_tables(nn.Embedding(5, 2), "ftrl", {"lr": 0.1})
    with pytest.raises(SparseError, match="no embedding 'dense'"):
        job_tables(Model(), "ftrl", {"lr": 0.1}, names=["dense"])


@pytest.mark.parametrize(
    ("optimizer", "kwargs", "words"),
    [
        (torch.optim.Adam, None, "no optimizer Adam; choose one of sgd, adagrad"),
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, "momentum"),
        ("adadelta", None, "no optimizer adadelta"),
    ],
)
def test_optimizers_that_servers_do_not_have_are_refused(optimizer: Any, kwargs: Any, words: str) -> None:
    with pytest.raises(SparseError, match=words):
        job_tables(Model(), optimizer, kwargs)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda each: each.__name__)
def test_what_is_left_out_is_what_torch_has(optimizer: type[torch.optim.Optimizer]) -> None:
    whole = job_tables(Model(), optimizer)[0]["optimizer"]
    usual = {name: each.default for name, each in inspect.signature(optimizer).parameters.items()}
    assert json.loads(json.dumps({name: usual[name] for name in whole if name != "name"})) == {
        name: value for name, value in whole.items() if name != "name"
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "other"}, "no table single: it has other, bag, ends"),
        ({"rows": {"counted": 41}}, "table single has rows 41, and the model wants 40"),
        ({"dim": 8}, "table single has dim 8, and the model wants 6"),
        ({"type": "float16"}, "table single has type float16, and the model wants float32"),
        ({"optimizer": {"name": "adagrad", "lr": 0.2}}, "has optimizer .*0.2.*, and the model wants .*0.1"),
    ],
)
def test_a_job_of_another_model_is_refused(change: dict[str, Any], words: str) -> None:
    model = Model()
    tables = job_tables(model, torch.optim.Adagrad, {"lr": 0.1})
    tables[0] |= change
    client = SparseClient(Servers({}, torch.optim.SGD))
    with pytest.raises(SparseError, match=words):
        shard_embeddings(
            model,
            json.dumps({"tables": tables}),
            optimizer=torch.optim.Adagrad,
            optimizer_kwargs={"lr": 0.1},
            client=client,
        )


def test_a_module_that_is_there_twice_is_replaced_twice() -> None:
    shared = nn.Embedding(5, 2)
    model = nn.ModuleDict({"a": shared, "b": shared, "bag": nn.EmbeddingBag(5, 2)})
    _, rows, _ = sharded(model, torch.optim.SGD, {"lr": 0.1})
    rows.close()
    assert model["a"] is model["b"]
    assert isinstance(model["a"], ShardedEmbedding)
    assert isinstance(model["bag"], ShardedEmbeddingBag)
