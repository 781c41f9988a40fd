"""How hot rows follow popularity, as people write it."""

from __future__ import annotations

import json

import pytest

from wiresum.errors import PlanError
from wiresum.plan.tracking import Decaying, Once, Sampling, tracking_of
from wiresum.sparse.documents import SparseJobFile
from wiresum.sparse.hot import empty_map
from wiresum.sparse.job import sparse_job


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("decaying:period=10", Decaying(name="decaying", period=10)),
        ("decaying:period=2,per_round=0.9,reach=2", Decaying(name="decaying", period=2, per_round=0.9, reach=2)),
        ("once:after=10", Once(name="once", after=10)),
        ("sampling:rate=0.04,after=200", Sampling(name="sampling", rate=0.04, after=200)),
    ],
)
def test_a_way_is_read_and_jobs_take_it(text, meant):
    assert tracking_of(text) == meant
    table = {"id": 0, "name": "t", "rows": {"counted": 10}, "dim": 4, "optimizer": {"name": "sgd", "lr": 0.1},
             "initial": "zeros", "seed": 1}  # fmt: skip
    job = sparse_job([table], 2, ["10.0.0.5:1"], ["10.0.0.6:1"], hot=empty_map(4, 5), tracking=meant.model_dump())
    assert SparseJobFile.parse(job).tracking == meant
    assert json.loads(job)["tracking"]["name"] == meant.name


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("often", "tracking often: is none of decaying, once, sampling"),
        ("decaying", "period: Field required"),
        ("decaying:period=1", "period: Input should be greater than or equal to 2"),
        ("decaying:period=10,reach=5", "reach: Input should be less than or equal to 4"),
        ("decaying:period=ten", "period: Input should be a valid integer"),
        ("decaying:period=10,period=11", "period is given twice"),
        ("once:after=1", "after: Input should be greater than or equal to 2"),
        ("once:after=5,rate=0.1", "rate: Extra inputs are not permitted"),
        ("sampling:rate=0,after=5", "rate: Input should be greater than 0"),
    ],
)
def test_a_wrong_way_is_named(text, named):
    with pytest.raises(PlanError, match=named):
        tracking_of(text)
