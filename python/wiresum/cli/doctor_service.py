"""What `wiresum doctor` says about aggregators as a service. Nothing is pinned, so no bpffs is needed."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from wiresum.deploy import control
from wiresum.errors import ControlError

CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_PERFMON": 38, "CAP_BPF": 39}
"""What loading and attaching the XDP program takes, by number in <linux/capability.h>."""
CAP_SYS_ADMIN = 21
"""Stands for CAP_BPF and CAP_PERFMON."""
CAP_IPC_LOCK = 14
FRAME_BYTES = 32 << 20
"""The most frames of one AF_XDP socket, which are locked in memory."""
UNIT = "wiresum-node@.service"
UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


def why_no_capabilities() -> str:
    """What this process lacks to run the engine `xdp`; a service gets it from its unit, a binary from its file."""
    missing = lacking(effective_capabilities())
    return f"{', '.join(missing)} missing: run as root, `setcap` the daemon, or use the unit" if missing else ""


def lacking(effective: int) -> list[str]:
    """Names of the capabilities that are not in a bitmap."""
    implied = {"CAP_PERFMON", "CAP_BPF"} if effective >> CAP_SYS_ADMIN & 1 else set()
    return [name for name, bit in CAPABILITIES.items() if not effective >> bit & 1 and name not in implied]


def effective_capabilities() -> int:
    """Bitmap of this process."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return int(line.split()[1], 16)


def why_too_little_locked_memory() -> str:
    """Whether AF_XDP's frames may be locked."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    has_room = limit == resource.RLIM_INFINITY or limit >= FRAME_BYTES
    if has_room or effective_capabilities() >> CAP_IPC_LOCK & 1:
        return ""
    return f"{limit} bytes: `ulimit -l {FRAME_BYTES >> 10}` for each queue, or LimitMEMLOCK=infinity in the unit"


def why_no_unit() -> str:
    """Whether the systemd unit is where systemd looks."""
    if any((Path(folder) / UNIT).exists() for folder in UNIT_FOLDERS):
        return ""
    return f"copy packaging/systemd/{UNIT} to {UNIT_FOLDERS[0]}; docs/operating.md has the steps"


def why_no_running_daemon() -> str:
    """Whether each control socket in the usual place is answered."""
    folder = control.default_socket().parent
    sockets = sorted(folder.glob("node-*.sock")) if os.access(folder, os.X_OK) else []
    if not sockets:
        return f"none in {folder}: start one with --control, or join the group `wiresum` to see it"
    for path in sockets:
        try:
            control.ask(path, "status")
        except ControlError as error:
            return str(error)
    return ""
