"""Bad input of sparse jobs: what the specification says is refused has tests that are there."""

import pytest
from tests.architecture.claims import is_there, named, rows

REFUSED = rows("spec/sparse.md", "What is refused")


def test_every_input_names_a_test():
    assert REFUSED
    assert all(named(row[2:]) for row in REFUSED)


@pytest.mark.parametrize(("file", "name"), named(row[2] for row in REFUSED))
def test_every_test_of_a_bad_input_is_there(file, name):
    assert is_there(file, name), f"{file} has no test {name}"
