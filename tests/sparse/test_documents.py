"""Files of sparse jobs: what the product writes fits the schemas that it prints."""

import json

import pytest

from wiresum.errors import PlanError, TraceError
from wiresum.sparse.documents import HotMap, SparseJobFile
from wiresum.sparse.hot import empty_map, hot_map
from wiresum.sparse.job import sparse_job
from wiresum.sparse.spec import parse

TRACE = parse("zipf:rows=1000,features=2,batch=8,dim=4,top=100")
TRACKINGS = [
    None,
    {"name": "decaying", "period": 10},
    {"name": "once", "after": 3},
    {"name": "sampling", "rate": 0.1, "after": 3},
]


def job(**changes: object) -> str:
    text = sparse_job(TRACE.tables.tables, 4, ["10.0.0.5:5748"], ["10.0.0.9:5748"], hot=hot_map(TRACE, 5, 7))
    return json.dumps({**json.loads(text), **changes})


@pytest.mark.parametrize("tracking", TRACKINGS, ids=lambda one: one["name"] if one else "none")
def test_a_job_that_is_written_fits_its_schema(tracking):
    read = SparseJobFile.parse(job(tracking=tracking))
    assert read.hot is not None
    assert [row[3] for row in read.hot.rows] == ["A"] * 5 + ["B"] * 7


def test_a_job_may_renew_its_keys_more_often():
    read = SparseJobFile.parse(job(renewal={"rounds": 16, "interval_ms": 200}))
    assert read.renewal is not None
    assert read.renewal.interval_ms == 200


def test_maps_that_are_written_fit_their_schema():
    assert len(HotMap.parse(hot_map(TRACE, 5, 7)).rows) == 12
    assert HotMap.parse(empty_map(4, 100)).rows == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"workers": 65}, "workers"),
        ({"tracking": {"name": "decaying", "period": 1}}, "tracking.decaying.period"),
        ({"servers": []}, "servers"),
        ({"secret": "short"}, "secret"),
        ({"renewal": {"rounds": 17, "interval_ms": 1000}}, "renewal.rounds"),
        ({"renewal": {"rounds": 16, "interval_ms": 0}}, "renewal.interval_ms"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_field_is_named(change, named):
    with pytest.raises(PlanError, match=named):
        SparseJobFile.parse(job(**change))


def test_a_row_of_no_tier_is_named():
    content = json.loads(hot_map(TRACE, 1, 0))
    content["rows"][0][3] = "C"
    with pytest.raises(TraceError, match=r"rows\[0\]"):
        HotMap.parse(json.dumps(content))
