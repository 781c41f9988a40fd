"""What a testbed leaves on a machine, looked up independently of its own records."""

from pathlib import Path

from wiresum.testbed import records

WAIT_S = 30
"""More than any of these tests needs; a bound, not a measurement."""


def existing(name: str) -> list[str]:
    """Namespaces, their configuration, and the folder of a testbed."""
    folders = [Path("/run/netns"), Path("/etc/netns"), records.root()]
    found = [entry.name for folder in folders if folder.is_dir() for entry in folder.iterdir()]
    return [entry for entry in found if entry == name or entry.startswith(f"ws-{name}-")]


def gone(pid: int) -> bool:
    """Whether a process has ended; one that no one has waited for yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
