"""Collectives drawn at random, with what each must do: runs in the ranks of a world."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch.distributed as dist
import world

import torch

RANKS = 3
SLOW_S = 30.0
"""Seconds, half of the group's timeout: a case that takes longer has waited for it."""
GUARD = 0xA5
"""Fills memory between and around elements."""
SHARED = "unsupported operation: more than one element of the written-to tensor refers to a single memory location"

ADDED = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool", "complex64")
COPIED = (
    "int16", "uint16", "uint32", "uint64", "complex128", "complex32",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
OPERATIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
FLAT = ("dense", "every second", "column", "offset", "expanded")
LAYOUTS = (*FLAT, "transposed", "channels last", "windows", "odd strides")
LENGTHS = (0, 1, 3, 24, 100, 1001, 4099, 5000)
REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor")
COPYING = (
    "broadcast", "all_gather", "all_gather_into_tensor", "gather", "scatter", "all_to_all", "all_to_all_single", "send",
)  # fmt: skip
IN_PLACE = ("all_gather_into_tensor", "reduce_scatter_tensor")


@dataclass(frozen=True)
class Case:
    """A call.

    Attributes:
        differs: what is another one on rank `odd`: nothing, "layout", "length", "type" or "operation".
        is_stacked: the whole has one row for each rank.
        is_named: the plan names the group.
    """

    collective: str
    layout: str = "dense"
    type: str = "float32"
    length: int = 100
    operation: str = "SUM"
    root: int = 0
    differs: str = ""
    odd: int = 1
    is_in_place: bool = False
    is_stacked: bool = False
    is_async: bool = False
    is_named: bool = True

    @property
    def is_reducing(self) -> bool:
        return self.collective in REDUCING

    def on(self, rank: int) -> Case:
        """What this rank does."""
        if rank != self.odd or not self.differs:
            return replace(self, layout="dense") if self.differs == "layout" else self
        if self.differs == "length":
            return replace(self, length=self.length + 8)
        if self.differs == "type":
            return replace(self, type="int32" if self.type == "float32" else "float32")
        if self.differs == "operation":
            return replace(self, operation="MAX" if self.operation == "SUM" else "SUM")
        return self


def drawn(seed: int, count: int) -> Iterator[Case]:
    """So many cases, always the same for a seed."""
    chance = random.Random(seed)
    for _ in range(count):
        collective = chance.choice(REDUCING + COPYING)
        layouts = FLAT if collective == "all_to_all_single" else LAYOUTS
        differs = chance.choice(("", "", "", "", "", "layout", "layout", "other"))
        if differs == "other":
            differs = chance.choice(("length", "type", "operation") if collective in REDUCING else ("length", "type"))
        if collective in ("send", "all_to_all_single", "all_to_all") and differs != "layout":
            differs = ""
        name = chance.choice(("float32", chance.choice(ADDED + COPIED)))
        if differs == "operation" and name.startswith("complex"):
            differs = ""  # PyTorch itself raises an error on one rank then
        yield Case(
            collective=collective,
            layout="dense" if differs in ("length", "type", "operation") else chance.choice(layouts),
            type=name,
            length=chance.choice(LENGTHS),
            operation=chance.choice(("SUM", "SUM", chance.choice(OPERATIONS))),
            root=chance.randrange(RANKS),
            differs=differs,
            odd=chance.randrange(RANKS),
            is_in_place=chance.random() < 0.2,
            is_stacked=chance.random() < 0.3,
            is_async=chance.random() < 0.5,
            is_named=chance.random() < 0.7,
        )


def values(case: Case, rank: int, place: int = 0) -> torch.Tensor:
    """A rank's elements, for the rank at a place: exact in every sum, or any bits where nothing is added."""
    dtype = getattr(torch, case.type)
    if not case.is_reducing:
        generator = torch.Generator().manual_seed(1000 * rank + 10 * place + case.length)
        if dtype is torch.bool:
            return torch.randint(0, 2, (case.length,), generator=generator).bool()
        bits = torch.randint(0, 256, (case.length * dtype.itemsize,), generator=generator, dtype=torch.uint8)
        return bits.view(dtype)
    step = torch.arange(case.length, dtype=torch.int64)
    whole = (step * 7 + rank * 5 + place * 3) % 4
    if case.operation == "PRODUCT":
        whole = whole % 2 + 1
    if case.operation == "AVG" and (dtype.is_complex or dtype.is_floating_point):
        whole = whole * RANKS
    elif case.type in ("int8", "int32", "int64") and case.operation != "PRODUCT":
        whole = whole - 2
    if case.type in COPIED and dtype.is_floating_point:
        return whole.to(torch.float32).to(dtype)  # an error whatever they are
    return whole.to(dtype)


def reduced(case: Case, tensors: list[torch.Tensor]) -> torch.Tensor:
    """What one process makes of the tensors of all ranks."""
    dtype = tensors[0].dtype
    if dtype is torch.bool:
        stacked = torch.stack(tensors).to(torch.uint8)
        if case.operation in ("SUM", "MAX", "BOR"):
            return stacked.amax(0).bool()
        return (stacked.sum(0) % 2).bool() if case.operation == "BXOR" else stacked.amin(0).bool()
    is_float = dtype.is_floating_point
    wide = torch.stack(tensors).to(torch.complex128 if dtype.is_complex else torch.float64 if is_float else torch.int64)
    if case.operation in ("BAND", "BOR", "BXOR"):
        fold = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}[case.operation]
        return fold(fold(wide[0], wide[1]), wide[2]).to(dtype)
    if case.operation == "AVG":
        total = wide.sum(0)
        if is_float or dtype.is_complex:
            return (total / RANKS).to(dtype)
        return torch.div(total.to(dtype), RANKS, rounding_mode="trunc")
    fold = {
        "SUM": lambda t: t.sum(0),
        "PRODUCT": lambda t: t.prod(0),
        "MIN": lambda t: t.amin(0),
        "MAX": lambda t: t.amax(0),
    }
    return fold[case.operation](wide).to(dtype) if wide.numel() else tensors[0].clone()


class Placed:
    """Elements in memory of their own, and what all of that memory must hold at the end."""

    def __init__(self, layout: str, elements: torch.Tensor) -> None:
        self.memory, self.view = _lay(layout, elements.numel(), elements.dtype)
        self.is_shared = do_share(layout, elements.numel())
        if not self.is_shared:
            self.view.copy_(elements.view(self.view.shape))
        self.expected = self.memory.clone()

    def expect(self, elements: torch.Tensor) -> None:
        """The call writes these."""
        twin = torch.as_strided(
            self.expected.view(self.view.dtype), self.view.shape, self.view.stride(), self.view.storage_offset()
        )
        twin.copy_(elements.view(twin.shape))

    @property
    def values(self) -> torch.Tensor:
        """The elements, one behind the other."""
        return self.view.contiguous().view(-1).clone()

    @property
    def is_right(self) -> bool:
        return torch.equal(self.memory, self.expected)


def do_share(layout: str, length: int) -> bool:
    """Whether elements of this layout share memory."""
    return (layout == "expanded" and length > 1) or (layout == "windows" and length > 3 and length % 3 == 0)


def _lay(layout: str, length: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory as bytes, and a view of so many of its elements."""
    memory = torch.full(((4 * length + 64) * dtype.itemsize,), GUARD, dtype=torch.uint8)
    room = memory.view(dtype)
    if dtype is torch.bool:
        memory.fill_(1)
    if layout == "expanded":
        return memory, room[8:9].expand(length)
    if layout == "windows" and length % 3 == 0:
        return memory, torch.as_strided(room, (length // 3, 3), (1, 1), 8)
    if layout == "every second":
        return memory, room[8 : 8 + 2 * length : 2]
    if layout == "column":
        return memory, room[9 : 9 + 3 * length].view(length, 3)[:, 1]
    if layout == "transposed" and length % 4 == 0:
        return memory, room[8 : 8 + length].view(4, length // 4).t()
    if layout == "channels last" and length % 4 == 0:
        return memory, torch.as_strided(room, (1, 2, 2, length // 4), (length, 1, length // 2, 2), 8)
    if layout == "odd strides":
        return memory, torch.as_strided(room, (1, length, 1), (7, 1, 13), 8)
    start = 13 if layout == "offset" else 8
    return memory, room[start : start + length]


Outcome = dict[str, Any]


class Call:
    """A case on this rank: its tensors, and how they are passed."""

    def __init__(self, case: Case, rank: int, group: Any) -> None:
        self.whole, self.rank, self.group = case, rank, group
        self.case = case.on(rank)
        self.placed: list[Placed] = []
        self.is_writing_shared = False

    def put(self, elements: torch.Tensor, *, written: bool, layout: str | None = None) -> Placed:
        placed = Placed(layout or self.case.layout, elements)
        self.placed.append(placed)
        self.is_writing_shared |= written and placed.is_shared
        return placed

    def everyones(self, place: int = 0) -> list[torch.Tensor]:
        return [values(self.case, rank, place) for rank in range(RANKS)]

    def run(self) -> Any:
        work = getattr(self, f"_{self.case.collective}")()
        for each in work if isinstance(work, list) else [work]:
            if self.case.is_async or self.case.collective == "send":
                each.wait()
        return None

    def _blank(self, count: int = 1) -> torch.Tensor:
        return torch.zeros(count * self.case.length, dtype=getattr(torch, self.case.type))

    def _operation(self) -> Any:
        return getattr(dist.ReduceOp, self.case.operation)

    def _options(self) -> dict[str, Any]:
        return {"group": self.group, "async_op": self.case.is_async}

    def _source(self, elements: torch.Tensor) -> torch.Tensor:
        """An input. If its elements share memory it is dense, as nobody knows their values."""
        layout = "dense" if self.case.layout in ("expanded", "windows") else self.case.layout
        return self.put(elements, written=False, layout=layout).view

    def _all_reduce(self) -> Any:
        tensor = self.put(values(self.case, self.rank), written=True)
        if not tensor.is_shared and self._is_addable():
            tensor.expect(reduced(self.case, self.everyones()))
        return dist.all_reduce(tensor.view, self._operation(), **self._options())

    def _is_addable(self) -> bool:
        return is_supported(self.case)

    def _reduce(self) -> Any:
        is_root = self.rank == self.case.root
        tensor = self.put(values(self.case, self.rank), written=is_root, layout=None if is_root else self._safe())
        if is_root and not tensor.is_shared and self._is_addable():
            tensor.expect(reduced(self.case, self.everyones()))
        return dist.reduce(tensor.view, self.case.root, self._operation(), **self._options())

    def _safe(self) -> str:
        return "dense" if self.case.layout in ("expanded", "windows") else self.case.layout

    def _reduce_scatter(self) -> Any:
        inputs = [self._source(values(self.case, self.rank, place)) for place in range(RANKS)]
        output = self.put(self._blank(), written=True)
        if not output.is_shared and self._is_addable():
            output.expect(reduced(self.case, self.everyones(self.rank)))
        return dist.reduce_scatter(output.view, inputs, self._operation(), **self._options())

    def _reduce_scatter_tensor(self) -> Any:
        parts = [values(self.case, self.rank, place) for place in range(RANKS)]
        joined = torch.cat([part.view(torch.uint8) for part in parts]).view(parts[0].dtype)
        result = reduced(self.case, self.everyones(self.rank)) if self._is_addable() else None
        if self.case.is_in_place and self.case.layout == "dense":
            whole = self.put(joined, written=True)
            length = self.case.length
            own = whole.view.narrow(0, self.rank * length, length)
            if result is not None:
                parts[self.rank] = result
                whole.expect(torch.cat([part.view(torch.uint8) for part in parts]).view(result.dtype))
            return dist.reduce_scatter_tensor(own, whole.view, self._operation(), **self._options())
        source = self._source(joined)
        source = (
            source.view(RANKS, -1) if self.case.is_stacked and source.is_contiguous() and self.case.length else source
        )
        output = self.put(self._blank(), written=True)
        if not output.is_shared and result is not None:
            output.expect(result)
        return dist.reduce_scatter_tensor(output.view, source, self._operation(), **self._options())

    def _broadcast(self) -> Any:
        is_root = self.rank == self.case.root
        mine = values(self.case, self.case.root) if is_root else self._blank()
        tensor = self.put(mine, written=not is_root, layout=self._safe() if is_root else None)
        if not tensor.is_shared:
            tensor.expect(values(self.case, self.case.root))
        return dist.broadcast(tensor.view, self.case.root, **self._options())

    def _list(self) -> list[Placed]:
        """A tensor for each rank, that takes its elements."""
        outputs = [self.put(self._blank(), written=True) for _ in range(RANKS)]
        for rank, output in enumerate(outputs):
            if not output.is_shared:
                output.expect(values(self.case, rank))
        return outputs

    def _all_gather(self) -> Any:
        outputs = [output.view for output in self._list()]
        return dist.all_gather(outputs, self._source(values(self.case, self.rank)), **self._options())

    def _all_gather_into_tensor(self) -> Any:
        everyones = torch.cat([tensor.view(torch.uint8) for tensor in self.everyones()]).view(
            getattr(torch, self.case.type)
        )
        length = self.case.length
        output = self.put(self._blank(RANKS), written=True)
        if self.case.is_in_place and self.case.layout == "dense":
            own = output.view.narrow(0, self.rank * length, length)
            own.copy_(values(self.case, self.rank))
            output.expect(everyones)
            return dist.all_gather_into_tensor(output.view, own, **self._options())
        if not output.is_shared:
            output.expect(everyones)
        view = output.view
        if self.case.is_stacked and view.is_contiguous() and length:
            view = view.view(RANKS, length)
        return dist.all_gather_into_tensor(view, self._source(values(self.case, self.rank)), **self._options())

    def _gather(self) -> Any:
        source = self._source(values(self.case, self.rank))
        outputs = [output.view for output in self._list()] if self.rank == self.case.root else None
        return dist.gather(source, outputs, self.case.root, **self._options())

    def _scatter(self) -> Any:
        root = self.case.root
        inputs = [self._source(values(self.case, root, place)) for place in range(RANKS)] if self.rank == root else None
        output = self.put(self._blank(), written=True)
        if not output.is_shared:
            output.expect(values(self.case, root, self.rank))
        return dist.scatter(output.view, inputs, root, **self._options())

    def _all_to_all(self) -> Any:
        inputs = [self._source(values(self.case, self.rank, place)) for place in range(RANKS)]
        outputs = [self.put(self._blank(), written=True) for _ in range(RANKS)]
        for rank, output in enumerate(outputs):
            if not output.is_shared:
                output.expect(values(self.case, rank, self.rank))
        return dist.all_to_all([output.view for output in outputs], inputs, **self._options())

    def _all_to_all_single(self) -> Any:
        dtype = getattr(torch, self.case.type)
        joined = lambda tensors: torch.cat([tensor.view(torch.uint8) for tensor in tensors]).view(dtype)  # noqa: E731
        source = self._source(joined([values(self.case, self.rank, place) for place in range(RANKS)]))
        output = self.put(self._blank(RANKS), written=True)
        if not output.is_shared:
            output.expect(joined([values(self.case, rank, self.rank) for rank in range(RANKS)]))
        return dist.all_to_all_single(output.view, source, **self._options())

    def _send(self) -> Any:
        """To the next rank, from the one before. Whoever receives into shared memory sends all the same."""
        before, after = (self.rank - 1) % RANKS, (self.rank + 1) % RANKS
        sent = dist.isend(self._source(values(self.case, self.rank)), after, self.group)
        layout = self.case.layout if self.whole.differs != "layout" else self._safe()
        output = self.put(self._blank(), written=True, layout=layout)
        if not output.is_shared:
            output.expect(values(self.case, before))
        try:
            return [dist.irecv(output.view, before, self.group), sent]
        except RuntimeError:
            spare = torch.empty_like(output.view, memory_format=torch.contiguous_format)
            dist.recv(spare, before, self.group)
            sent.wait()
            raise


def is_supported(case: Case) -> bool:
    """Whether a collective of this type and operation exists."""
    dtype = getattr(torch, case.type)
    if not case.is_reducing:
        return True
    if dtype.is_complex:
        return case.operation in ("SUM", "AVG")
    if case.type in COPIED:
        return False
    if dtype is torch.bool:
        return case.operation != "AVG"
    return not dtype.is_floating_point or case.operation in ("SUM", "AVG", "PRODUCT", "MIN", "MAX")


groups: dict[bool, Any] = {}
"""By whether the plan names it."""


def _open_groups() -> None:
    groups[True] = dist.group.WORLD
    groups[False] = dist.new_group(backend="wiresum")


def _open_again() -> None:
    """The network ends a job whose ranks passed different collectives."""
    dist.destroy_process_group()
    world.create_group()
    _open_groups()


def run_all(cases: list[Case]) -> list[str]:
    """What became of each case on this rank: nothing if it was right, else the error or the fault."""
    if groups.get(True) is not dist.group.WORLD:
        _open_groups()
    return [_run(case) for case in cases]


def _run(case: Case) -> str:
    call = Call(case, dist.get_rank(), groups[case.is_named])
    begin = time.monotonic()
    told = _told(call.run)
    if time.monotonic() - begin > SLOW_S:
        return f"waited: {told}"
    if told.startswith("MismatchError") and _told(dist.barrier):
        _open_again()
    if not told and not all(placed.is_right for placed in call.placed):
        return "wrong"
    return told


def _told(call: Callable[[], Any]) -> str:
    """The error without what is this rank's own: the collective's number, and the rank."""
    try:
        call()
    except Exception as error:
        text = re.sub(r"^.*? in group '[^']*' on rank \d+: ", "", str(error))
        return f"{type(error).__name__}: {text}"
    return ""


def is_refused(case: Case) -> bool:
    """Whether a rank writes to elements that share memory."""
    length = case.length * (RANKS if case.collective in ("all_gather_into_tensor", "all_to_all_single") else 1)
    is_shared = do_share(case.layout, length)
    ranks = [rank for rank in range(RANKS) if case.differs != "layout" or rank == case.odd]
    if case.collective == "broadcast":
        ranks = [rank for rank in ranks if rank != case.root]
    if case.collective in ("reduce", "gather"):
        ranks = [rank for rank in ranks if rank == case.root]
    if case.collective == "send" and case.differs == "layout":
        return False
    return is_shared and bool(ranks)


def fault_of(case: Case, told: list[str]) -> str:
    """What is wrong with what became of a case on all ranks; nothing if that is right."""
    if len(set(told)) != 1:
        return f"ranks differ: {told}"
    if not is_supported(case) or (case.differs in ("type", "operation") and not is_supported(case.on(case.odd))):
        is_right = bool(told[0])
    elif case.differs in ("length", "type", "operation") and not _is_alike(case):
        is_right = told[0].startswith("MismatchError")
    elif is_refused(case):
        is_right = SHARED in told[0] or told[0].startswith("MismatchError")
    else:
        is_right = not told[0]
    return "" if is_right else f"{told[0] or 'no error'}"


def _is_alike(case: Case) -> bool:
    """Operations on what is only copied do not differ."""
    return case.differs == "operation" and not case.is_reducing
