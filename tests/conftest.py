"""Fixtures that several folders need."""

import pytest


@pytest.fixture(scope="session")
def namespaces():
    """Skips aloud where this process may not make network namespaces."""
    from wiresum.testbed.networks import why_no_namespaces

    problem = why_no_namespaces()
    if problem:
        pytest.skip(f"network namespaces cannot be made here ({problem})")
