"""Names for testbeds of tests."""

from __future__ import annotations

import itertools
import os

import pytest

from wiresum.testbed import records

NUMBERS = itertools.count()


@pytest.fixture
def name():
    """A testbed name that no one else uses; whatever is left under it afterwards is removed, and is an error."""
    chosen = f"test-{os.getpid()}-{next(NUMBERS)}"
    yield chosen
    left = [record for record in records.everything() if record.name == chosen]
    for record in left:
        record.clear_up()
    assert not left, f"testbed {chosen} was left behind"
