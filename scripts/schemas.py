"""Writes the JSON schemas of files from their models. `tests/cli/test_schema.py` fails where one is not up to date."""

from wiresum.schemas import MODELS, from_model, path

for name in MODELS:
    path(name).write_text(from_model(name))
