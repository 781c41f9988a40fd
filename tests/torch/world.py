"""A few processes that form a process group and run check after check: starting them is what takes the time."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.util
import inspect
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

CHECK_LIMIT_S = 180.0
"""Seconds. A check that hangs must not hang the tests; two busy cores need some patience."""
DUMP_AFTER_S = CHECK_LIMIT_S - 10
"""Seconds after which a rank shows where it hangs."""
EXIT_LIMIT_S = 10.0
"""Seconds for a rank to leave before it is killed."""
DEFAULT_GROUP_TIMEOUT_S = 60.0


@dataclass
class Failure:
    """What a check raised on one rank."""

    kind: str
    message: str
    trace: str


@dataclass
class World:
    """`size` processes; see `run`. Use as a context manager."""

    size: int
    environment: dict[str, str] = field(default_factory=dict)
    backend: str = "wiresum"
    timeout_s: float = DEFAULT_GROUP_TIMEOUT_S
    prepare: Callable[[], None] | None = None
    create_group: bool = True

    def __enter__(self) -> World:
        from torch.distributed import TCPStore

        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        fork = _forking()
        self._pipes: list[Connection] = []
        self.processes: list[BaseProcess] = []
        for rank in range(self.size):
            ours, theirs = fork.Pipe()
            process = fork.Process(target=_serve, args=(rank, theirs, self._description()), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)
        if self.create_group:
            self.run(_create_group)
        return self

    def __exit__(self, *_exception: object) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in self.processes:
            process.join(timeout=EXIT_LIMIT_S)
            if process.is_alive():
                process.kill()
                process.join()

    def run(self, check: Callable[..., Any], *arguments: Any, ranks: list[int] | None = None) -> list[Any]:
        """Runs a function of a module on all ranks (or some) and returns what it returned, in their order."""
        results = self.try_to_run(check, *arguments, ranks=ranks)
        failures = [result for result in results if isinstance(result, Failure)]
        assert not failures, "\n".join(failure.trace for failure in failures)
        return results

    def try_to_run(self, check: Callable[..., Any], *arguments: Any, ranks: list[int] | None = None) -> list[Any]:
        """As `run`, with a `Failure` for each rank that raised."""
        chosen = list(range(self.size)) if ranks is None else ranks
        for rank in chosen:
            with contextlib.suppress(BrokenPipeError):  # it has died, as its answer will say
                self._pipes[rank].send((inspect.getfile(check), check.__name__, arguments))
        return [self._answer(rank, check.__name__) for rank in chosen]

    def _answer(self, rank: int, name: str) -> Any:
        if not self._pipes[rank].poll(CHECK_LIMIT_S):
            raise AssertionError(f"{name} hangs on rank {rank}")
        try:
            return self._pipes[rank].recv()
        except (EOFError, ConnectionResetError):
            return Failure("ProcessDied", f"rank {rank} died", f"rank {rank} died in {name}")

    def _description(self) -> dict[str, Any]:
        return {
            "path": sys.path,
            "environment": {"OMP_NUM_THREADS": "1", **self.environment},
            "prepare": self.prepare and (inspect.getfile(self.prepare), self.prepare.__name__),
            "port": self._store.port,
            "size": self.size,
            "backend": self.backend,
            "timeout_s": self.timeout_s,
        }


def _forking() -> ForkServerContext:
    """Ranks are forked by a process that has imported PyTorch, and has neither threads nor groups of its own."""
    context = multiprocessing.get_context("forkserver")
    # The last is what DistributedDataParallel imports when it is first used.
    context.set_forkserver_preload(["torch.distributed", "wiresum.torch", "torch._dynamo"])
    with patch.dict(os.environ, OMP_NUM_THREADS="1"):
        forkserver.ensure_running()
    return context


_this_rank: dict[str, Any] = {}
"""In a rank's process: its rank and its world."""


def _serve(rank: int, pipe: Connection, description: dict[str, Any]) -> None:
    os.environ.update(description["environment"])
    sys.path[:] = description["path"]
    _this_rank.update(description, rank=rank)
    if description["prepare"]:
        _load(*description["prepare"])()
    while (task := pipe.recv()) is not None:
        path, name, arguments = task
        faulthandler.dump_traceback_later(DUMP_AFTER_S)
        try:
            pipe.send(_load(path, name)(*arguments))
        except BaseException as error:
            trace = f"rank {rank}: {traceback.format_exc()}"
            pipe.send(Failure(type(error).__name__, str(error), trace))
        faulthandler.cancel_dump_traceback_later()
    os._exit(0)  # a group that a check has broken must not keep the process


def _load(path: str, name: str) -> Callable[..., Any]:
    """A function of the file at `path`, whatever pytest has called its module."""
    module_name = Path(path).stem
    if path == __file__:
        module_name = __name__
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(sys.modules[module_name], name)
    return function


def create_group(backend: str | None = None, timeout_s: float | None = None, **options: Any) -> None:
    """In a rank's process: creates the default group."""
    import torch.distributed as dist

    dist.init_process_group(
        backend or _this_rank["backend"],
        store=store(),
        rank=_this_rank["rank"],
        world_size=_this_rank["size"],
        timeout=timedelta(seconds=timeout_s or _this_rank["timeout_s"]),
        **options,
    )


def store() -> Any:
    """In a rank's process: the world's store."""
    from torch.distributed import TCPStore

    if "store" not in _this_rank:
        _this_rank["store"] = TCPStore("127.0.0.1", _this_rank["port"], is_master=False)
    return _this_rank["store"]


def _create_group() -> None:
    create_group()
