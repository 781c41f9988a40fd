"""Every environment variable that the backend reads: one table, from which the documentation is checked."""

from __future__ import annotations

import os
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast, get_args

from wiresum.errors import SettingError
from wiresum.plan.choices import DEFAULT_WINDOW, Lanes, Policy, Transport

DEFAULT_MIN_ELEMENTS = 256
"""Elements. From here on the network takes no longer than Gloo even over loopback, where latency is all that counts."""
DEFAULT_JOIN_TIMEOUT_S = 30.0
"""Seconds. Aggregators answer within milliseconds; this leaves time to start one by hand."""
DEFAULT_DEAD_AFTER_S = 5.0
"""Seconds, of ten heartbeats. A busy host keeps a thread waiting for tens of milliseconds, a virtual machine that moves
for a second or two."""
DEAD_AFTER_BOUNDS_S = (0.5, 3600.0)
"""Seconds, those of `crates/worker/src/stream/asked/heartbeat.rs`."""

DEFAULT_REPLAY_BYTES = 256 << 20
"""Bytes: ten of DDP's buckets. What is not written to takes no memory."""


@dataclass(frozen=True)
class Setting:
    """An environment variable.

    Attributes:
        name: its name.
        field: the field of `Settings` that it sets.
        values: what it may be, for people.
        default: its default, for people; empty if there is none.
        meaning: what it does.
        read: turns its text into the field's value; raises ValueError.
    """

    name: str
    field: str
    values: str
    default: str
    meaning: str
    read: Callable[[str], Any]


@dataclass(frozen=True)
class Settings:
    """The values of all settings; see `SETTINGS` for their meaning."""

    plan: Path | None = None
    seat: int | None = None
    aggregator: str | None = None
    secret: str | None = None
    secret_file: Path | None = None
    job: int = 1
    values_per_packet: int | None = None
    lanes: Lanes = "auto"
    policy: Policy = "pool"
    window: int = DEFAULT_WINDOW
    min_elements: int = DEFAULT_MIN_ELEMENTS
    join_timeout_s: float = DEFAULT_JOIN_TIMEOUT_S
    dead_after_s: float = DEFAULT_DEAD_AFTER_S
    replay_bytes: int = DEFAULT_REPLAY_BYTES
    outlives_ranks: bool = False
    transport: Transport = "auto"
    turns: str | None = None
    sparse_job: Path | None = None
    require: bool = False
    fall_back: bool = False
    log: str = "info"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Reads every setting.

        Raises:
            SettingError: one has no meaning, or two contradict each other.
        """
        given = {setting.field: _read(setting, environment) for setting in SETTINGS if environment.get(setting.name)}
        settings = cls(**given)
        if settings.plan and settings.aggregator:
            raise SettingError(
                "WIRESUM_PLAN and WIRESUM_AGGREGATOR are both set, and each says where to sum: unset one of them"
            )
        if settings.aggregator and not (settings.secret or settings.secret_file):
            raise SettingError(
                "WIRESUM_AGGREGATOR needs the secret of the plan that the aggregator was started with: set "
                "WIRESUM_SECRET_FILE, or WIRESUM_SECRET"
            )
        return settings


def _read(setting: Setting, environment: Mapping[str, str]) -> Any:
    text = environment[setting.name]
    try:
        return setting.read(text)
    except ValueError:
        raise SettingError(f"{setting.name} is {text!r} but must be {setting.values}") from None


def _one_of(*values: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(text)
        return text.lower()

    return read


def _number_from(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if int(text) < least:
            raise ValueError(text)
        return int(text)

    return read


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(text)
    return seconds


def _dead_after(text: str) -> float:
    seconds = float(text)
    least, most = DEAD_AFTER_BOUNDS_S
    if seconds != 0 and not least <= seconds <= most:
        raise ValueError(text)
    return seconds


def _switch(text: str) -> bool:
    return {"0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}[_one_of(*_SWITCH)(text)]


_SWITCH = ("0", "1", "false", "true", "no", "yes")


def _secret(text: str) -> str:
    if len(text) != 64 or set(text) - set(string.hexdigits):  # noqa: PLR2004 – 256 bits
        raise ValueError(text)
    return text


def _lanes(text: str) -> Lanes:
    name = _one_of("int32", "int16", *get_args(Lanes))(text)
    return cast("Lanes", f"{name}-le" if name in ("int32", "int16") else name)


SETTINGS: tuple[Setting, ...] = (
    Setting("WIRESUM_PLAN", "plan", "a path", "", "The aggregation plan: where each fragment is summed.", Path),
    Setting(
        "WIRESUM_SEAT", "seat", "a number", "",
        "With `WIRESUM_PLAN`: which of the plan's workers this process is, counted from 0. Groups then may have fewer "
        "ranks than the plan has workers, in any order. Unset: the rank.", _number_from(0),
    ),
    Setting(
        "WIRESUM_AGGREGATOR", "aggregator", "`IP:port`", "",
        "Instead of a plan: the one aggregator that sums everything of all ranks.", str,
    ),
    Setting(
        "WIRESUM_SECRET", "secret", "64 hexadecimal digits", "",
        "With `WIRESUM_AGGREGATOR`: the job's secret.", _secret,
    ),
    Setting(
        "WIRESUM_SECRET_FILE", "secret_file", "a path", "",
        "The file with the job's secret. Where absent, a plan `PLAN` has its secret in `PLAN.secret`.", Path,
    ),
    Setting(
        "WIRESUM_JOB", "job", "a number", "1",
        "With `WIRESUM_AGGREGATOR`, or `WIRESUM_TURNS` without a plan: the job's number there.", _number_from(0),
    ),
    Setting(
        "WIRESUM_VALUES_PER_PACKET", "values_per_packet", "a multiple of 8 from 64 to 2232", "736",
        "With `WIRESUM_AGGREGATOR`: int32 values of a full packet. 352 fit an MTU of 1500 bytes; more than 736, for "
        "which only a server in user space has room, need one of up to 9000.", _number_from(1),
    ),
    Setting(
        "WIRESUM_LANES", "lanes", "`auto`, `int32` or `int16`", "auto",
        "With `WIRESUM_AGGREGATOR`: width of the wire's integers. `auto`: as wide as each tensor's elements. `int16` "
        "halves the bytes of float32, at less accuracy. Must be the same on every rank.",
        _lanes,
    ),
    Setting(
        "WIRESUM_POLICY", "policy", "`pool` or `cache`", "pool",
        "With `WIRESUM_AGGREGATOR`: the slot policy.", _one_of("pool", "cache"),
    ),
    Setting(
        "WIRESUM_WINDOW", "window", "a number of packets", str(DEFAULT_WINDOW),
        "With `WIRESUM_AGGREGATOR`: most packets that a rank has sent without an acknowledgement.", _number_from(1),
    ),
    Setting(
        "WIRESUM_MIN_ELEMENTS", "min_elements", "a number", str(DEFAULT_MIN_ELEMENTS),
        "Fewer elements are not summed in the network: an all-reduce of them is one exchange, or goes through Gloo. "
        "Must be the same on every rank.", _number_from(1),
    ),
    Setting(
        "WIRESUM_JOIN_TIMEOUT_S", "join_timeout_s", "a number of seconds", f"{DEFAULT_JOIN_TIMEOUT_S:g}",
        "How long to wait for the aggregators when a group is created.", _seconds,
    ),
    Setting(
        "WIRESUM_DEAD_AFTER", "dead_after_s", "`0` or a number of seconds from 0.5 to 3600",
        f"{DEFAULT_DEAD_AFTER_S:g}",
        "How long nothing may be heard of this rank's process before all others end the job with `WorkerLostError`; "
        "`0`: only timeouts tell. Where switches sum, and in turns, its end is noticed at once, and silence is not.",
        _dead_after,
    ),
    Setting(
        "WIRESUM_REPLAY", "replay_bytes", "a number of bytes", str(DEFAULT_REPLAY_BYTES),
        "How much a rank keeps of collectives, so that they are repeated over Gloo when no aggregator can sum them; "
        "`0`: that ends the job. Not in turns, where switches sum, nor where rounds go on without late workers.",
        _number_from(0),
    ),
    Setting(
        "WIRESUM_ON_LOSS", "outlives_ranks", "`fail` or `continue`", "fail",
        "What happens when a rank is lost. `fail`: all others get a `WorkerLostError`. `continue`: they go on without "
        "it, and averages are of those who are left. Must be the same on every rank; needs `WIRESUM_DEAD_AFTER` and "
        "`WIRESUM_REPLAY`, and servers that sum.",
        lambda text: _one_of("fail", "continue")(text) == "continue",
    ),
    Setting(
        "WIRESUM_TRANSPORT", "transport", "`auto`, `udp` or `af_xdp`", "auto",
        "What packets of a rank travel by: UDP, or AF_XDP frames past the network stack, which need privileges.",
        lambda text: cast("Transport", _one_of("auto", "udp", "af_xdp")(text)),
    ),
    Setting(
        "WIRESUM_TURNS", "turns", "`HOST:PORT` or a path", "",
        "Where the driver of a schedule listens (`wiresum circuits run`): the rank sends in its job's turns. Without "
        "`WIRESUM_PLAN` it waits there for its job's plan, and needs `WIRESUM_SECRET_FILE`.", str,
    ),
    Setting(
        "WIRESUM_SPARSE_JOB", "sparse_job", "a path", "",
        "The file of the sparse job that `shard_embeddings` joins, unless the program names one.", Path,
    ),
    Setting(
        "WIRESUM_REQUIRE", "require", "`0` or `1`", "0",
        "`1`: creating a group that cannot sum in the network is an error, not a warning.", _switch,
    ),
    Setting(
        "WIRESUM_FALLBACK", "fall_back", "`gloo` or `none`", "none",
        "`gloo`: if aggregators cannot be joined, or a job gets no turn or no more light, all ranks go on with Gloo "
        "alone, and warn.",
        lambda text: _one_of("gloo", "none")(text) == "gloo",
    ),
    Setting(
        "WIRESUM_LOG", "log", "`debug`, `info`, `warning`, `error` or `off`", "info",
        "What is written to standard error, unless the program has set up logging itself.",
        _one_of("debug", "info", "warning", "error", "off"),
    ),
)  # fmt: skip


PREFIX = "WIRESUM_"
TOLD = frozenset(
    {
        "WIRESUM_GNMI_PASSWORD", "WIRESUM_INCARNATION", "WIRESUM_JOB_BYTES", "WIRESUM_JOB_COMPUTE_S",
        "WIRESUM_JOB_ITERATIONS", "WIRESUM_JOB_NAME", "WIRESUM_NODE_OPTIONS", "WIRESUM_PLANS", "WIRESUM_SOURCE",
        "WIRESUM_SOURCE_ADDRESS", "WIRESUM_TARGET", "WIRESUM_TARGET_ADDRESS", "WIRESUM_TESTBED",
        "WIRESUM_TESTBED_BACKEND", "WIRESUM_TESTBED_TOKEN",
    }
)  # fmt: skip
"""What commands and units of Wiresum read, or tell processes that they start: no settings, and no mistakes."""
OF_TESTS = "WIRESUM_TEST"
"""How names begin that only the project's tests read."""
MOST_NAMED = 5
"""Unknown variables that are named: of more, one has made them on purpose."""


def misspelt(environment: Mapping[str, str] = os.environ) -> list[str]:
    """A sentence for each variable that is named like a setting and is none, with the setting that is nearest.

    Example:
        >>> misspelt({"WIRESUM_PLANN": "plan.json", "WIRESUM_WINDOW": "64"})
        ['WIRESUM_PLANN is not a setting and does nothing; did you mean WIRESUM_PLAN?']
    """
    known = {setting.name for setting in SETTINGS} | TOLD
    ours = sorted(name for name in environment if name.startswith(PREFIX) and not name.startswith(OF_TESTS))
    return [_unknown(name) for name in ours if name not in known][:MOST_NAMED]


def _unknown(name: str) -> str:
    """Names are compared without what all of them begin with, as any two would be alike."""
    nearest = get_close_matches(name.removeprefix(PREFIX), [one.name.removeprefix(PREFIX) for one in SETTINGS], 1)
    hint = f"did you mean {PREFIX}{nearest[0]}?" if nearest else "docs/configuration.md has all settings"
    return f"{name} is not a setting and does nothing; {hint}"


def as_markdown() -> str:
    """The table for the documentation."""
    rows = [f"| `{s.name}` | {s.values} | {f'`{s.default}`' if s.default else '–'} | {s.meaning} |" for s in SETTINGS]
    return "\n".join(["| variable | value | default | meaning |", "| --- | --- | --- | --- |", *rows]) + "\n"


if __name__ == "__main__":
    print(as_markdown(), end="")
