"""The P4 compiler and the reference switch, where this machine has them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "p4"
VECTORS = ROOT / "spec" / "vectors" / "switch"
# A program takes some seconds to compile, with a compiler that was built without optimisation a minute.
COMPILE_TIMEOUT_S = 600

POLICIES = sorted(path.stem for path in (PROGRAMS / "policies").glob("*.p4") if path.stem not in {"slots", "versions"})


@dataclass(frozen=True)
class Tools:
    """Commands, empty where there is none."""

    compiler: str
    switch: str
    command_line: str

    def missing(self, *wanted: str) -> str:
        """Which of these (names of `DEFAULTS`) are not there, with the remedy; empty if nothing is missing."""
        found = {"P4C": self.compiler, "BMV2": self.switch, "BMV2_CLI": self.command_line}
        return ", ".join(f"no {DEFAULTS[name]} (or {name}=…)" for name in wanted if not found[name])


DEFAULTS = {"P4C": "p4c-bm2-ss", "BMV2": "simple_switch", "BMV2_CLI": "simple_switch_CLI"}


def find() -> Tools:
    """Tools that the environment names, or else those on PATH."""
    paths = {name: shutil.which(os.environ.get(name, default)) or "" for name, default in DEFAULTS.items()}
    return Tools(paths["P4C"], paths["BMV2"], paths["BMV2_CLI"])


def compile_program(tools: Tools, policy: str, to: Path, **defines: int) -> Path:
    """The policy's program for v1model, as BMv2 reads it.

    Raises:
        RuntimeError: with what the compiler says.
    """
    return compile_source(tools, "switch.p4", to, POLICY=policy, **defines)


def compile_source(tools: Tools, source: str, to: Path, **defines: int | str) -> Path:
    """A program of `p4/v1model`, as BMv2 reads it.

    Raises:
        RuntimeError: with what the compiler says.
    """
    architecture = PROGRAMS / "v1model"
    options = [f"-D{name}={value}" for name, value in defines.items()]
    command = [tools.compiler, "-I", str(architecture), *options, str(architecture / source), "-o", str(to)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return to


def preprocessed(policy: str, architecture: str) -> str:
    """A program's text after the preprocessor, the architecture's own definitions left out.

    Raises:
        RuntimeError: if the preprocessor fails.
    """
    return preprocess("switch.p4", architecture, POLICY=policy, SLOTS=8, LANES=8)


def preprocess(source: str, architecture: str, **defines: int | str) -> str:
    """As `preprocessed`, of any program of an architecture.

    Raises:
        RuntimeError: if the preprocessor fails.
    """
    folder = PROGRAMS / architecture
    command = ["cpp", "-undef", "-nostdinc", "-P", "-x", "assembler-with-cpp", "-I", str(folder)]
    command += [f"-D{name}={value}" for name, value in defines.items()] + ["-"]
    text = (folder / source).read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#include <"))
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=folder, check=False, timeout=30)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def trace(name: str) -> dict:
    """A golden trace: `spec/vectors/switch/NAME.json`."""
    return json.loads((VECTORS / f"{name}.json").read_text())


def trace_names() -> list[str]:
    """Every golden trace."""
    return sorted(path.stem for path in VECTORS.glob("*.json"))
