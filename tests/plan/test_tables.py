"""Tables of sparse models: what a file may say, and what the named models have."""

import json
from typing import get_args

import pytest

from wiresum.errors import PlanError
from wiresum.plan.models import MODELS, TABLES
from wiresum.plan.tables import OptimizerName, Table, Tables

ONE = {"name": "users", "rows": 10, "dimension": 16, "features": ["user"]}


def tables(**changes):
    return json.dumps({"format": "wiresum-tables/1", "tables": [{**ONE, **changes}]})


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_named_models_are_files_that_can_be_read_again(name):
    made = TABLES[name]()
    assert Tables.parse(made.to_json()) == made
    assert name in MODELS


def test_criteo_has_as_many_rows_as_its_features_have_values():
    assert TABLES["dlrm"]().rows == TABLES["lr"]().rows == 33_762_577
    assert TABLES["fm"]().rows == 2 * 33_762_577, "a weight and a vector each"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rows": 0}, "tables[0].rows"),
        ({"rows": 1 << 41}, "tables[0].rows"),
        ({"dimension": 257}, "tables[0].dimension"),
        ({"dimension": "16"}, "tables[0].dimension"),
        ({"type": "int8"}, "tables[0].type"),
        ({"ids": "sorted"}, "tables[0].ids"),
        ({"features": []}, "tables[0].features"),
        ({"optimizer": {"name": "lamb"}}, "tables[0].optimizer.name"),
        ({"optimizer": {"lr": 0}}, "tables[0].optimizer.lr"),
        ({"colour": "red"}, "tables[0].colour: is not a known field"),
        ({"features": ["user", "user"]}, "two have the feature user"),
    ],
)
def test_a_bad_field_is_named(change, named):
    with pytest.raises(PlanError, match=r"^tables") as refused:
        Tables.parse(tables(**change))
    assert named in str(refused.value)


def test_what_is_no_table_says_which_command_writes_one():
    with pytest.raises(PlanError, match="write one with `wiresum sparse tables --help`"):
        Tables.parse("no")


def test_two_tables_of_one_name_are_refused():
    with pytest.raises(PlanError, match="two have the table users"):
        Tables.build(format="wiresum-tables/1", tables=[Table(**ONE), Table(**{**ONE, "features": ["other"]})])


def test_memory_counts_values_and_the_optimizers_state():
    stored = {
        name: Table(**{**ONE, "optimizer": {"name": name}}).stored_bytes // ONE["rows"]
        for name in get_args(OptimizerName)
    }
    assert stored == {"sgd": 64, "adagrad": 128, "row-wise-adagrad": 68, "sparse-adam": 192, "ftrl": 192}
    assert Table(**{**ONE, "type": "bfloat16"}).row_bytes == 32


def test_a_job_s_tables_are_read_as_a_plan_s():
    job = {"id": 0, "name": "users", "rows": {"counted": 10}, "dim": 16, "seed": 0, "initial": "zeros",
           "optimizer": {"name": "adagrad", "lr": 0.1, "eps": 1e-10}}  # fmt: skip
    (read,) = Tables.parse(json.dumps([job])).tables
    assert (read.name, read.rows, read.dimension, read.features) == ("users", 10, 16, ["users"])
    assert (read.optimizer.name, read.optimizer.lr) == ("adagrad", 0.1)
    assert read.type == "float32"
    assert Tables.parse(json.dumps([{**job, "type": "bfloat16"}])).tables[0].type == "bfloat16"
    with pytest.raises(PlanError, match=r"tables\[0\]"):
        Tables.parse(json.dumps([{**job, "dim": "16"}]))
