"""Run the test steps of `make test`, all of them even if one fails, and repeat failed live tests at the end.

A live test has ranks, daemons, sockets or clocks. It can fail because the machine is busy. So each live test that
fails runs once more, alone, after the last step. The run fails if the test fails again, or if more than MOST_REPEATED
tests need it. Name each repeated test in docs/STATUS.md.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

MOST_REPEATED = 2
"""Live tests that may fail once in one run. More of them point to a defect, not to a busy machine."""
LIVE_CRATES = {"wiresum-node", "wiresum-xdp"}
"""Crates whose tests use real sockets and clocks."""
LIVE_FOLDERS = [f"tests/{name}" for name in ("bench", "demo", "native", "p4", "testbed", "torch")]
"""Ranks, daemons and networks. These mostly wait, so they run next to each other, but not next to long computations."""
TIMED_FOLDERS = ["tests/turns"]
"""Time slots. They run one at a time."""

PYTEST = [sys.executable, "-m", "pytest"]
ALONE = ["-n", "0"]
CARGO_TEST = ["cargo", "test", "--locked", "--quiet"]
TESTS_FAILED = 1
"""pytest's exit code if tests have failed. The other codes mean that it did not run them all."""

FAILED_TARGET = re.compile(r"error: test failed, to rerun pass `(.+)`")
FAILED_NAMES = re.compile(r"^failures:\n((?:    \S.*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class LiveTest:
    """A failed test, with the command that runs it alone."""

    name: str
    command: list[str]


@dataclass
class Outcome:
    """Result of one step.

    Attributes:
        is_broken: The step failed, whatever a repetition would say.
        failed: Live tests to run again.
    """

    is_broken: bool = False
    failed: list[LiveTest] = field(default_factory=list)

    def __str__(self) -> str:
        return "failed" if self.is_broken else f"{len(self.failed)} to repeat" if self.failed else "passed"


@dataclass
class RustStep:
    """All Rust tests."""

    name: str = "rust"
    command: list[str] = field(default_factory=lambda: [*CARGO_TEST, "--workspace", "--no-fail-fast"])

    def run(self) -> Outcome:
        """Run cargo and read the failed tests from its output."""
        lines = []
        with subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as cargo:
            assert cargo.stdout is not None
            for line in cargo.stdout:
                print(line, end="", flush=True)
                lines.append(line)
        return Outcome() if cargo.returncode == 0 else failed_rust_tests("".join(lines))


def failed_rust_tests(output: str) -> Outcome:
    """Live tests among the failures. Any other failure, or a target without names of tests, breaks the step."""
    texts = FAILED_TARGET.split(output)
    outcome = Outcome(is_broken=len(texts) == 1)
    for text, target in zip(texts[::2], texts[1::2], strict=False):
        names = [name for block in FAILED_NAMES.findall(text)[-1:] for name in block.split()]
        is_live = bool(LIVE_CRATES.intersection(target.split())) and "--doc" not in target
        outcome.is_broken |= not names or not is_live
        outcome.failed += [_rust_test(target, name) for name in names if is_live]
    return outcome


def _rust_test(target: str, name: str) -> LiveTest:
    return LiveTest(f"{target} {name}", [*CARGO_TEST, *target.split(), "--", "--exact", name])


@dataclass
class PythonStep:
    """Tests of some folders.

    Attributes:
        name: Names the step and its record of failed tests.
        arguments: Goes to pytest.
        is_live: Its failed tests are repeated at the end.
    """

    name: str
    arguments: list[str]
    is_live: bool = True

    def run(self) -> Outcome:
        """Run pytest and read the failed tests from its cache."""
        cache = Path("build/tests", self.name).absolute()
        shutil.rmtree(cache, ignore_errors=True)
        code = subprocess.run([*PYTEST, "-o", f"cache_dir={cache}", *self.arguments], check=False).returncode
        record = cache / "v/cache/lastfailed"
        names = sorted(json.loads(record.read_text())) if code == TESTS_FAILED and record.exists() else []
        if not self.is_live or not names:
            return Outcome(is_broken=code != 0)
        return Outcome(failed=[LiveTest(name, [*PYTEST, *ALONE, name]) for name in names])


Step = RustStep | PythonStep
STEPS: dict[str, list[Step]] = {
    "rust": [RustStep()],
    "python": [
        PythonStep("compute", ["-n", "auto", *(f"--ignore={path}" for path in LIVE_FOLDERS + TIMED_FOLDERS)], False),
        # Each worker takes a run of neighboring tests, as these share process groups.
        PythonStep("live", ["-n", "auto", "--dist", "worksteal", *LIVE_FOLDERS]),
        PythonStep("timed", TIMED_FOLDERS),
    ],
}


def say(text: str) -> None:
    """Print a line of this script, in bold."""
    print(f"\033[1m{text}\033[0m", flush=True)


def processor_seconds() -> float:
    """Processor time of all commands that have ended, without processes that nobody waits for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_step(step: Step) -> Outcome:
    """Run a step and say how it ended and how long it took."""
    say(f"Tests: {step.name}")
    start_s, start_cpu_s = time.monotonic(), processor_seconds()
    outcome = step.run()
    cost = f"{time.monotonic() - start_s:.0f} s, {processor_seconds() - start_cpu_s:.0f} s of processors"
    say(f"Tests: {step.name}: {outcome} ({cost})")
    return outcome


def repeat(failed: list[LiveTest]) -> bool:
    """Run each test alone. Return whether all passed and whether the number is acceptable."""
    for test in failed:
        say(f"Failed next to other tests: {test.name}")
    if len(failed) > MOST_REPEATED:
        say(f"{len(failed)} live tests failed. At most {MOST_REPEATED} are repeated, so the run fails.")
        return False
    passed = [_passes_alone(test) for test in failed]
    for test in failed:
        say(f"List in docs/STATUS.md: {test.name}")
    return all(passed)


def _passes_alone(test: LiveTest) -> bool:
    say(f"Once more, alone: {test.name}")
    passes = subprocess.run(test.command, check=False).returncode == 0
    say(f"{'Passed alone' if passes else 'Failed again'}: {test.name}")
    return passes


def run(steps: Iterable[Step]) -> int:
    """Run all steps, then the failed live tests. Return the exit code."""
    outcomes = {step.name: run_step(step) for step in steps}
    passes = repeat([test for outcome in outcomes.values() for test in outcome.failed])
    passes &= not any(outcome.is_broken for outcome in outcomes.values())
    say("Tests: " + ", ".join(f"{name} {outcome}" for name, outcome in outcomes.items()))
    say("All tests passed." if passes else "Tests failed.")
    return 0 if passes else 1


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    sys.exit(run(step for name in sys.argv[1:] or STEPS for step in STEPS[name]))
