"""Readers of original files, on files made on the spot."""

import numpy as np
import pytest

from wiresum.errors import TraceError
from wiresum.plan.models.recommendation import CRITEO_ROWS
from wiresum.sparse.spec import parse

CLICK = "\t".join(["1", *map(str, range(13)), *(f"{number:08x}" for number in range(26))])
BLANK = "\t".join(["0", *[""] * 13, *[""] * 26])


def test_criteo_is_read_as_it_is_published(tmp_path):
    (tmp_path / "train.txt").write_text(f"{CLICK}\n{BLANK}\n")
    trace = parse("criteo:batch=2", data_dir=tmp_path)
    assert trace.rows == sum(CRITEO_ROWS)
    keys = trace.samples(0, 3)
    assert (keys[0] - trace.first_keys[:-1] == np.arange(26) % np.array(CRITEO_ROWS)).all()
    assert (keys[1] == trace.first_keys[:-1]).all(), "what is missing is row 0"
    assert (keys[2] == keys[0]).all(), "after the last comes the first"
    assert trace.labels(0, 2).tolist() == [1, 0]
    assert trace.numbers(0, 1)[0] == pytest.approx(np.log1p(np.arange(13)))
    assert parse("criteo:samples=1", data_dir=tmp_path).labels(0, 2).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        ("ratings.csv", "userId,movieId,rating,timestamp\n7,100,3.5,1\n9,100,4.0,2\n7,50,1.0,3\n"),
        ("ratings.dat", "7::100::3.5::1\n9::100::4::2\n7::50::1::3\n"),
        ("u.data", "7\t100\t3\t1\n9\t100\t4\t2\n7\t50\t1\t3\n"),
    ],
)
def test_movielens_is_read_in_each_of_its_forms(tmp_path, file, lines):
    (tmp_path / file).write_text(lines)
    trace = parse("movielens:batch=3", data_dir=tmp_path)
    assert [table.rows for table in trace.tables.tables] == [2, 2]
    assert trace.samples(0, 3).tolist() == [[0, 3], [1, 3], [0, 2]]
    assert trace.top(2).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("spec", "file", "content", "said"),
    [
        ("criteo", "train.txt", "1\tx", "train.txt:1: could not convert string to float: 'x'"),
        ("criteo", "train.txt", f"{CLICK}\n2{BLANK[1:]}", "train.txt:2: 40 fields, label 2"),
        ("criteo", "train.txt", CLICK.rpartition("\t")[0], "train.txt:1: 39 fields"),
        ("criteo", "train.txt", "", "has no samples"),
        ("criteo", "other.txt", "", "has no train.txt; give the folder"),
        ("movielens", "ratings.csv", "userId,movieId,rating,timestamp\n1,2\n", "ratings.csv:2: '1,2' is not user"),
        ("movielens", "ratings.dat", "-1::2::3::4\n", "ratings.dat:1"),
        ("text", "a.txt", "", "no files of such a trace can be read"),
    ],
)
def test_a_file_of_another_form_is_refused_by_line(tmp_path, spec, file, content, said):
    (tmp_path / file).write_text(content)
    with pytest.raises(TraceError) as refused:
        parse(spec, data_dir=tmp_path)
    assert said in str(refused.value)
