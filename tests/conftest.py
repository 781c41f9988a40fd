"""Fixtures and settings that several folders need."""

import os
import sys

import hypothesis
import pytest

# Images of containers set this. Then each process of a test compiles PyTorch's sources again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Where there is no GPU, Triton interprets kernels; it asks when it is imported first.
if not os.path.exists("/dev/nvidiactl"):
    os.environ.setdefault("TRITON_INTERPRET", "1")

pytest_plugins = ["tests.capabilities", "pytester"]

# Examples have no time limit of their own: it would depend on what else the machine does.
hypothesis.settings.register_profile("wiresum", deadline=None)
hypothesis.settings.load_profile("wiresum")


@pytest.fixture(scope="session")
def namespaces():
    """Skips aloud where this process may not make network namespaces."""
    from tests import capabilities

    capabilities.require("namespaces")
