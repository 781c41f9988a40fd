"""Fixtures that several folders need."""

import pytest

pytest_plugins = ["tests.capabilities", "pytester"]


@pytest.fixture(scope="session")
def namespaces():
    """Skips aloud where this process may not make network namespaces."""
    from tests import capabilities

    capabilities.require("namespaces")
