"""All-reduces by numbers of 8 bits: half the bytes of bfloat16, a quarter of float32's.

`docs/pytorch.md` is the guide, in its section "Gradients of 8 bits".

An element becomes an integer of 8 bits, with room for the sum of all ranks, so that two ranks keep 6 bits of it besides
its sign, four 5, and sixteen 3. What these bits have no room for is kept and added to the next gradient (error
feedback: Seide et al., "1-bit stochastic gradient descent", Interspeech 2014), or chance decides which way the integer
is rounded.
"""

import logging
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

import torch
from wiresum.plan.choices import MAX_PACKED_WORKERS

if TYPE_CHECKING:
    from torch.distributed import Work

    from wiresum.torch._c10d import WiresumBackend

logger = logging.getLogger("wiresum.torch")

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
"""Types of tensors that become numbers of 8 bits."""


def all_reduce(
    tensor: torch.Tensor,
    op: dist.ReduceOp.RedOpType = dist.ReduceOp.AVG,
    group: dist.ProcessGroup | None = None,
    *,
    kept: torch.Tensor | None = None,
    async_op: bool = False,
) -> "Work | None":
    """Sums or averages a tensor in place by numbers of 8 bits.

    Where 8 bits do not go, it is a plain all-reduce, and `kept` becomes zeros: tensors in the memory of a GPU, those
    that the network does not sum, plans of more than 16 workers or with a codec `fixed:…`, groups of other backends.

    Args:
        tensor: of float32, float16 or bfloat16, on every rank.
        op: SUM or AVG.
        group: the default group where absent.
        kept: as many float32 elements as the tensor has, contiguous, which get what this rank's numbers leave of its
            values, and which nobody touches until the end. Where absent, chance decides which way a number is
            rounded, so that sums are right in the mean.
        async_op: whether to return a handle at once.

    Returns:
        The handle with `async_op`, else None.

    Raises:
        ValueError: the tensor has another type or is sparse, or `kept` is not what is said above. Nothing is sent then.
    """
    _check_tensor(tensor)
    _check_kept(tensor, kept)
    group = group or dist.distributed_c10d._get_default_group()
    backend = _backend(group, tensor)
    if backend is None:
        if kept is not None:
            kept.zero_()
        return dist.all_reduce(tensor, op=op, group=group, async_op=async_op)
    work = backend.all_reduce_int8(tensor, dist.ReduceOp(op), kept, None)
    if async_op:
        return work
    work.wait()
    return None


@dataclass
class EightBits:
    """A DDP communication hook: gradients are averaged by numbers of 8 bits.

    What 8 bits have no room for is kept, and added to the next gradient of the same parameters. So nothing is lost over
    the steps, but once: DDP makes other buckets after the first step, and what was kept of it is dropped. A checkpoint
    need not have what is kept.

    Attributes:
        group: of the ranks that train together; the default group where absent.
        kept: by bucket: its parameters, and what is kept of their gradients, in float32.

    Example:
        model.register_comm_hook(EightBits(), EightBits.hook)
    """

    group: dist.ProcessGroup | None = None
    kept: dict[int, tuple[tuple[int, ...], torch.Tensor]] = field(default_factory=dict)

    def hook(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Averages a bucket."""
        gradient, kept = bucket.buffer(), self._kept(bucket)
        gradient.add_(kept.to(gradient.device))
        work = all_reduce(gradient, dist.ReduceOp.AVG, self.group, kept=kept, async_op=True)
        assert work is not None
        return work.get_future().then(lambda _done: gradient)

    def _kept(self, bucket: GradBucket) -> torch.Tensor:
        """What is left of the gradients before."""
        parameters = tuple(map(id, bucket.parameters()))
        before = self.kept.get(bucket.index())
        if before is None or before[0] != parameters:
            before = (parameters, torch.zeros(bucket.buffer().numel()))
            self.kept[bucket.index()] = before
        return before[1]


def _check_tensor(tensor: torch.Tensor) -> None:
    if tensor.dtype in DTYPES and tensor.layout is torch.strided:
        return
    *names, own = (str(dtype).removeprefix("torch.") for dtype in (*DTYPES, tensor.dtype))
    layout = "" if tensor.layout is torch.strided else f" in the layout {str(tensor.layout).removeprefix('torch.')}"
    raise ValueError(
        f"eight_bits.all_reduce takes dense tensors of {', '.join(names)}, and not {own}{layout}; "
        "convert the tensor, or use dist.all_reduce"
    )


def _check_kept(tensor: torch.Tensor, kept: torch.Tensor | None) -> None:
    if kept is None:
        return
    is_fit = kept.dtype is torch.float32 and kept.is_contiguous() and kept.device.type == "cpu"
    if not is_fit or kept.numel() != tensor.numel():
        raise ValueError(
            f"`kept` has to be a contiguous float32 tensor of {tensor.numel()} elements on the CPU, "
            f"not {kept.numel()} of {kept.dtype} on {kept.device}"
        )


def _backend(group: dist.ProcessGroup, tensor: torch.Tensor) -> "WiresumBackend | None":
    """The backend that sums 8 bits, or hands on what it does not; None where the group has another one."""
    backend: Any = group._get_backend(tensor.device)
    # A group whose members change hands on to that of the present ones.
    backend = getattr(backend, "members", None) or backend
    if not hasattr(backend, "all_reduce_int8"):
        _tell_once(f"the group's backend is `{backend.name()}`, and `wiresum` alone sums 8 bits")
        return None
    ours: WiresumBackend = backend
    if tensor.device.type != "cpu":
        _tell_once("8 bits are for tensors in CPU memory")
    elif not ours.packs and not ours.ledger.no_network:
        _tell_once(f"the plan has more than {MAX_PACKED_WORKERS} workers, or a codec with a fixed factor")
    return ours


@cache
def _tell_once(why: str) -> None:
    logger.warning("sums of 8 bits travel at full width: %s", why)
