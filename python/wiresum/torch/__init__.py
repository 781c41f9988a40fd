"""The `wiresum` backend of `torch.distributed`: sums of floats are made in the network.

    torch.distributed.init_process_group("wiresum")

`docs/pytorch.md` is the guide, `docs/configuration.md` the list of settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiresum.torch.reason import Reason
from wiresum.torch.report import GroupReport, Report, Row, group_report

if TYPE_CHECKING:
    from torch.distributed import Work

__all__ = ["GroupReport", "Reason", "Report", "Row", "explain", "register", "report"]

BACKEND = "wiresum"
"""The backend's name."""


def register() -> None:
    """Makes the backend known to PyTorch, which calls this by itself for `init_process_group("wiresum")`."""
    from torch.distributed import Backend

    from wiresum.torch.group import create

    # Wherever Gloo works, so does a group that hands to Gloo what it does not take.
    devices = list(Backend.backend_capability[Backend.GLOO])
    Backend.register_backend(BACKEND, create, extended_api=True, devices=devices)


def report() -> Report:
    """What every process group of this process that uses the backend has summed where.

    Collectives are counted when they are over, those that Gloo does when they begin.
    """
    from wiresum.torch import extension
    from wiresum.torch.connection import Connection

    ledgers, engines = extension.load().ledgers(), Connection.counters()
    return Report([group_report(ledger, engines.get(ledger.id, {})) for ledger in ledgers])


def explain(work: Work) -> Reason:
    """Where the collective of a handle was summed, or why not in the network.

    Example:
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        print(wiresum.torch.explain(work).explanation)

    Raises:
        TypeError: it is no handle, as where `async_op` is not set, or of coalesced collectives, which return a future.
    """
    from torch.distributed import Work as Handle

    from wiresum.torch import extension

    if not isinstance(work, Handle):
        raise TypeError(
            f"explain() takes the handle that a collective returns with async_op=True, not {type(work).__name__}; "
            "report() counts collectives that have none"
        )
    return Reason(extension.load().reason_of(work))
