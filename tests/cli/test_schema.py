"""`wiresum schema` prints schemas that stand in files."""

import json
import subprocess
import sys
from typing import get_args

import pytest
from tests.cli.forks import wiresum

from wiresum.cli.schema import Format
from wiresum.schemas import MODELS, from_model

SCRIPT = """
import sys
from wiresum.cli import main

sys.argv = ["wiresum", "schema", "plan"]
try:
    main()
finally:
    print([name for name in ("pydantic", "numpy") if name in sys.modules], file=sys.stderr)
"""


def test_each_model_has_a_name_on_the_command_line():
    assert list(MODELS) == list(get_args(Format))


@pytest.mark.parametrize("name", MODELS)
def test_a_schema_is_that_of_its_model(name):
    printed = wiresum("schema", name).stdout
    assert json.loads(printed) == json.loads(from_model(name)), "run `make generate`"


def test_a_schema_is_printed_without_its_model():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "[]\n"
