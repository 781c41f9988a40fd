"""Environment variables of a worker's process. `docs/testbed.md` has them as a table."""

import os
from collections.abc import Sequence

from wiresum.testbed.networks import Network

BACKEND_VARIABLE = "WIRESUM_TESTBED_BACKEND"
"""What `wiresum testbed run --backend` was given, for scripts that let their caller choose."""

SPARSE_JOB_VARIABLE = "WIRESUM_SPARSE_JOB"
"""Path of the sparse job's file, where `wiresum testbed run --tables` has started its servers."""


def worker_environment(network: Network, workers: Sequence[str], rank: int, master_port: int) -> dict[str, str]:
    """What `torch.distributed.init_process_group()` reads.

    Args:
        network: where the worker runs.
        workers: names of all workers in rank order.
        rank: the worker's.
        master_port: of the process group's store, at rank 0.
    """
    interface = network.host_interface(workers[rank])
    # On loopback all workers share one host; in namespaces each has one to itself.
    shared = not network.namespaces
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(len(workers)),
        "LOCAL_RANK": str(rank if shared else 0),
        "LOCAL_WORLD_SIZE": str(len(workers) if shared else 1),
        # As launchers name a host's number: torchrun, and Lightning, which takes all ranks for rank 0 without it.
        "GROUP_RANK": str(0 if shared else rank),
        "NODE_RANK": str(0 if shared else rank),
        "MASTER_ADDR": network.address(workers[0]),
        "MASTER_PORT": str(master_port),
        "GLOO_SOCKET_IFNAME": interface,
        "TP_SOCKET_IFNAME": interface,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "PYTHONUNBUFFERED": "1",
    }
