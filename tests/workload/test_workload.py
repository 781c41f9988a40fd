"""Files of jobs: what makes them and what reads them."""

import contextlib
import json
import re
from collections import Counter
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.errors import WorkloadError
from wiresum.topology.generators.optical import optical
from wiresum.topology.generators.racks import racks
from wiresum.workload.coflows import coflows
from wiresum.workload.model import Workload, WorkloadJob
from wiresum.workload.poisson import poisson
from wiresum.workload.sites import unit_of_location, units_of
from wiresum.workload.table import table

UNITS = optical(units=5, hosts_per_unit=4, servers_per_unit=2)


@given(
    st.integers(1, 30),
    st.lists(st.integers(1, 20), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.booleans(),
    st.integers(0, 1000),
)
def test_random_jobs_are_where_they_may_be(jobs, workers, spread, by_host, seed):
    made = poisson(UNITS, jobs, 3.0, workers, (10, 20), spread=spread, by_host=by_host, seed=seed)
    assert Workload.parse(made.to_json()) == made
    assert len(made.jobs) == jobs
    unit = unit_of_location(units_of(UNITS))
    for job in made.jobs:
        assert job.worker_count in workers
        assert 10 <= job.bytes <= 20
        assert job.locations <= set(unit)
        assert (
            len(job.workers) == job.worker_count
            if by_host
            else all(location.startswith("u") for location in job.workers)
        )
        fewest = -(-job.worker_count // 4)
        used = len({unit[location] for location in job.workers})
        assert fewest <= used <= max(fewest, 2 if spread and job.worker_count > 1 else 0)


def test_arrivals_come_as_often_as_asked_and_by_seed_alone():
    made = [poisson(UNITS, 4000, 20.0, [2], (1, 1), seed=seed).jobs for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    gaps = [later.arrival_s - job.arrival_s for job, later in zip(made[0], made[0][1:], strict=False)]
    assert mean(gaps) == pytest.approx(1 / 20, rel=0.1)
    assert mean(gap**2 for gap in gaps) == pytest.approx(2 / 20**2, rel=0.2), "not exponential"


def test_units_are_filled_evenly():
    made = poisson(UNITS, 50, 1.0, [2], (1, 1), seed=3)
    load = dict.fromkeys((unit.name for unit in units_of(UNITS)), 0)
    for job in made.jobs:
        for location, count in job.workers.items():
            load[location] += count
    assert set(load.values()) == {20}


def test_racks_of_servers_have_servers_only():
    made = poisson(racks(ports=3), 20, 1.0, [2, 4], (1, 1), seed=1)
    assert {job.server for job in made.jobs} == {"T3"}
    assert {location for job in made.jobs for location in job.workers} == {"T1", "T2"}


TRACE = """6 2
1 0 2 0 3 2 1:65.0 4:5
2 1500 1 5 1 5:0.5
"""


def test_a_trace_keeps_its_bytes_on_any_number_of_units():
    for size in (1, 2, 3, 6):
        names = [f"u{number}" for number in range(size)]
        read = coflows(TRACE, names)
        assert [job.total_bytes for job in read.jobs] == [70_000_000, 500_000]
        assert [job.worker_count for job in read.jobs] == [2, 1]
        assert [job.arrival_s for job in read.jobs] == [0.0, 1.5]
        at = Counter({names[1 % size]: 65_000_000}) + Counter({names[4 % size]: 5_000_000})
        assert read.jobs[0].sinks == at
        assert read.jobs[0].workers == Counter([names[0], names[3 % size]])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (("4:5", ""), "line 2: it should have 2 reducers, and has 1"),
        (("2 1500", "2 -1"), "line 3: arrival and mappers"),
        (("6 2", "6 3"), "line 1: 6 racks and 3 coflows, but 2 lines"),
        (("6 2", "none"), "line 1: it should have the numbers of racks and coflows, and has 1"),
        (("5:0.5", "6:0.5"), "line 3: rack 6 of 6; racks count from 0"),
        (("5:0.5", "5:half"), "line 3: `5:half` is not a rack and its megabytes"),
        (("5:0.5", "5:0.5 9"), "line 3: more fields"),
        (("5:0.5", "5:0"), "line 3: `5:0` is not a rack and its megabytes"),
        (("2 1500", ": 1500"), "line 3: name: string should match pattern"),
        (("1 5:0.5", "0"), "line 3: job c2: a coflow has `sinks`"),
        (("2 1500", "1 1500"), "lines 2 and 3: two coflows have the id 1"),
        (("1 0 2", "1 9000 2"), "c2 comes at 1.5 s, before c1 at 9.0 s; sort the jobs"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(change, named):
    with pytest.raises(WorkloadError, match=re.escape(named)):
        coflows(TRACE.replace(*change), ["u0", "u1"])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 3 130461 25 64 65 66", "it should have 130461 mappers, and has 4"),  # sizes before racks
        ("0 2 0 3 2 1:65.0 4:5", "racks of mappers should stand here"),
        ("1,0,2,0,3,2,1:65.0,4:5", "it should have arrival and number of mappers, and has 0"),
        ("1 0 3 4 5 1:65.0 1", "4 5 1:65.0 should be racks of mappers"),
        ("1 0.5 2 0 3 2 1:65.0 4:5", "0.5 2 should be arrival and mappers"),
        ("1 0 2 0 3 2 1 65", "`1` is not a rack and its megabytes"),
        (f"1 0 {10**400} 0 3 2 1:65.0", "arrival and mappers should stand here, as numbers from 0 to"),
        (f"1 {10**400} 1 0 1 1:65.0", "arrival and mappers should stand here, as numbers from 0 to"),
        ("1 0 1 0 1 1:1e400", "`1:1e400` is not a rack and its megabytes"),
        ("1 0 1 0 1 1:nan", "`1:nan` is not a rack and its megabytes"),
        (f"1 {10**15} 1 0 1 1:5", "arrival_s: input should be less than or equal to 1000000000"),
    ],
)
def test_another_format_of_coflows_is_told_the_columns(line, problem):
    with pytest.raises(WorkloadError) as refused:
        coflows(f"6 1\n\n{line}\n", ["u0", "u1"])
    said = str(refused.value)
    assert said.startswith("line 3: ")
    assert problem in said
    assert "a line of the coflow benchmark has id, arrival in ms, number of mappers, their racks, " in said
    assert f"`{line[:40]}" in said
    assert len(said) < 500


@given(st.text(alphabet="0123456789: .\n-x", max_size=60))
def test_no_text_breaks_the_reader_of_traces(text):
    with contextlib.suppress(WorkloadError):
        coflows(text, ["u0", "u1"])


TABLE = """job_id,submit_time,num_gpu,other
application_1506638472019_10258,2017-10-03 05:18:10,4,x
application_1506638472019_10259,2017-10-03 05:18:00,1,y
cpu-only,2017-10-03 05:18:30,0,z
"""


def test_a_table_is_sorted_counts_from_the_first_job_and_leaves_out_who_sends_nothing():
    read = table(TABLE, UNITS, (7, 7))
    assert [(job.name[-5:], job.arrival_s, job.worker_count, job.bytes) for job in read.jobs] == [
        ("10259", 0.0, 1, 7), ("10258", 10.0, 4, 7),
    ]  # fmt: skip
    own = table("gpus,arrival,bytes,steps\n2,5,100,3\n", UNITS, (7, 7))
    assert (own.jobs[0].bytes, own.jobs[0].iterations, own.jobs[0].arrival_s) == (100, 3, 0.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a,b\n1,2\n", "line 1: no column for arrival; name it one of arrival_s"),
        ("arrival,gpus\nsoon,1\n", "line 2: arrival is `soon`; give seconds, or a date and time"),
        ("arrival,gpus\n1,many\n", "line 2: gpus is `many`; give a number from 0"),
        ("arrival,gpus\n1,-2\n", "line 2: gpus is `-2`; give a number from 0"),
        ("arrival,gpus\n1,nan\n", "line 2: gpus is `nan`; give a number from 0"),
        ("arrival,gpus\n1,inf\n", "line 2: gpus is `inf`; give a number from 0"),
        ("arrival,gpus\n1,1e308\n", "line 2: gpus is `1e308`; give a number from 0 to 4294967295"),
        (f"arrival,gpus\n1,{10**400}\n", f"line 2: gpus is `{'1' + 59 * '0'}`; give a number from 0"),
        ("arrival,gpus\nnan,1\n", "line 2: arrival is `nan`; give seconds, or a date and time"),
        ("arrival,gpus\n0,1\n1e300,1\n", "line 3: arrival_s: input should be less than or equal to 1000000000"),
        ("arrival,gpus,bytes\n1,1,0\n", "line 2: bytes: input should be greater than 0"),
        ("arrival,gpus,bytes\n1,1,0.5\n", "line 2: bytes is `0.5`; give a whole number"),
        (f"arrival,gpus,bytes\n1,1,{10**400}\n", "line 2: bytes: input should be less than or equal to"),
        ("arrival,gpus,steps\n1,1,0\n", "line 2: iterations: input should be greater than 0"),
        ("arrival,gpus,compute_s\n1,1,inf\n", "line 2: compute_s is `inf`; give a number of seconds"),
        ("arrival,gpus,compute_s\n1,1,-1\n", "line 2: compute_s: input should be greater than or equal to 0"),
        ("arrival,gpus\n\n1,\n", "line 3: gpus is ``; give a number"),
        ('arrival,gpus,job\n1,1,"a\nb"\n1,x,c\n', "line 4: gpus is `x`"),
        ("arrival,gpus,job\n1,1,A/1\n2,1,B\n0,1,A-1\n", "jobs A/1 (line 2) and A-1 (line 4) both have the name A-1"),
        ("arrival,gpus,job\n1,1,A\n2,1,A\n", "the jobs A (line 2) and A (line 3) both have the name A here"),
        ("arrival,gpus,job\n1,1,j2\n2,1,\n", "jobs j2 (line 2) and without an id (line 3) both have the name j2"),
        (f"arrival,gpus,job\n1,1,a{'x' * 32}\n2,1,b{'x' * 32}\n", f"the jobs a{'x' * 32} (line 2) and b{'x' * 32}"),
        (f"arrival,gpus,job\n1,1,{'x' * 200_000}\n", "after line 1: field larger than field limit"),
        ("arrival,gpus\n1,0\n", "no job with workers"),
        ("arrival,gpus,steps\n5,1,2\n1,1,-2\n", "line 3: iterations: input should be greater than 0"),
        ("arrival,gpus,job\n1,1,é\n", "line 2: name: string should match pattern"),
        ("arrival,gpus\n1,999\n", "line 2: a job of 999 workers has no room"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(text, named):
    with pytest.raises(WorkloadError, match=re.escape(named)):
        table(text, UNITS, (1, 2))


def test_parts_of_a_gpu_are_whole_workers_and_every_change_is_said():
    told = []
    text = "arrival,gpus,job\n0,0.5,a\n1,1.5,b\n2,2.5,c\n3,0.4,d\n4,2,e\n5,0,f\n6,0.0,g\n"
    read = table(text, UNITS, (7, 7), tell=told.append)
    assert {job.name: job.worker_count for job in read.jobs} == {"a": 1, "b": 2, "c": 3, "d": 1, "e": 2}
    assert told == [
        "2 of 7 jobs have no GPU and are left out, the first one in line 7",
        "4 of 7 jobs have part of a GPU, which counts as a worker: 0.5 is 1 in line 2",
    ]


@pytest.mark.parametrize(
    ("job", "named"),
    [
        ({"workers": {"u0": 1}}, "a star has `bytes`"),
        ({"workers": {"u0": 1}, "bytes": 1, "sinks": {"u1": 1}}, "no `sinks`"),
        ({"workers": {"u0": 1}, "synchrony": "coflow", "bytes": 1}, "a coflow has `sinks`"),
        ({"workers": {}, "bytes": 1}, "at least 1"),
        ({"workers": {"u0": 0}, "bytes": 1}, "greater than 0"),
        ({"workers": {"u0": 1}, "bytes": 0}, "greater than 0"),
        ({"workers": {"u0": 1}, "bytes": 10**400}, "less than or equal to 9007199254740992"),
        ({"workers": {"u0": 1}, "bytes": 1, "speed": 1}, "not a known field"),
    ],
)
def test_a_job_that_cannot_be_is_refused_by_field(job, named):
    with pytest.raises(WorkloadError, match=re.escape(named)):
        Workload.build(name="w", jobs=[{"name": "j", **job}])


def run(*arguments):
    done = CliRunner().invoke(app, ["workload", *arguments])
    assert done.exception is None, done.output
    return done.stdout


def test_the_commands_make_files_that_show_reads(tmp_path):
    trace, rows = tmp_path / "trace.txt", tmp_path / "rows.csv"
    trace.write_text(TRACE)
    rows.write_text(TABLE)
    made = {
        "poisson": run("poisson", "--jobs", "3", "--workers", "2,4", "--bytes", "1MB,2MB", "--seed", "1"),
        "coflows": run("coflows", str(trace), "--batch"),
        "table": run("table", str(rows), "--topology", "optical:units=2", "--by-host"),
    }
    for name, text in made.items():
        file = tmp_path / f"{name}.json"
        file.write_text(text)
        told = json.loads(run("show", str(file), "--json"))
        assert told["jobs"] == len(Workload.parse(text).jobs)
        assert "jobs" in run("show", str(file))
    assert {job.arrival_s for job in Workload.parse(made["coflows"]).jobs} == {0.0}


def test_what_a_job_sends():
    star = WorkloadJob(name="s", workers={"u0": 3, "u1": 1}, bytes=10, iterations=5)
    assert (star.worker_count, star.total_bytes) == (4, 200)
