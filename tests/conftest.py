"""Fixtures that several folders need."""

import os

import pytest

# Where there is no GPU, Triton interprets kernels; it asks when it is imported first.
if not os.path.exists("/dev/nvidiactl"):
    os.environ.setdefault("TRITON_INTERPRET", "1")

pytest_plugins = ["tests.capabilities", "pytester"]


@pytest.fixture(scope="session")
def namespaces():
    """Skips aloud where this process may not make network namespaces."""
    from tests import capabilities

    capabilities.require("namespaces")
