"""Work for a Ray cluster. Ray is no requirement: whoever has a cluster has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from wiresum.errors import SupportError

Answer = TypeVar("Answer")

MOST_PENDING = 256
"""Calls that wait or run at once: enough for a large cluster, and what their arguments take stays small."""


def on_ray(
    address: str, function: Callable[..., Answer], calls: Iterable[tuple[str, tuple[Any, ...]]]
) -> Iterator[tuple[str, Answer]]:
    """Calls a function with many arguments on a cluster, each answer as it comes.

    Args:
        address: of the cluster, as `ray.init` takes it: `auto`, `local`, `ray://head:10001`.
        function: of a module that the cluster's machines have.
        calls: keys, each with a call's arguments.

    Raises:
        SupportError: Ray is not installed, or there is no cluster at the address.
    """
    try:
        import ray
    except ImportError:
        raise SupportError("--ray needs Ray; install it with `pip install ray`, or leave --ray out") from None
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as refused:
        raise SupportError(
            f"there is no Ray cluster at {address} ({refused}); start one with `ray start --head`, or give its address"
        ) from None
    try:
        yield from _answers(ray, ray.remote(function), calls)
    finally:
        ray.shutdown()


def _answers(ray: Any, task: Any, calls: Iterable[tuple[str, tuple[Any, ...]]]) -> Iterator[tuple[str, Any]]:
    pending: dict[Any, str] = {}
    for key, arguments in calls:
        pending[task.remote(*arguments)] = key
        if len(pending) >= MOST_PENDING:
            yield from _next(ray, pending)
    while pending:
        yield from _next(ray, pending)


def _next(ray: Any, pending: dict[Any, str]) -> Iterator[tuple[str, Any]]:
    """Waits for a call, and takes it off the pending ones."""
    done, _ = ray.wait(list(pending), num_returns=1)
    for reference in done:
        yield pending.pop(reference), ray.get(reference)
