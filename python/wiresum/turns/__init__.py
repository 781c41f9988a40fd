"""Turns, live: a schedule of jobs over optical circuits is carried out, and what happens is held against its promise.

| module | what it does |
| --- | --- |
| `plans` | makes a schedule of plans from a timetable: ports, links and segments |
| `nodes` | gives jobs to switches and servers, and takes them back |
| `driver` | carries a schedule out: circuits, nodes, gates (`wiresum.gates`), one interval after another |
| `light` | orders circuits at their devices, and waits for light |
| `live` | runs the jobs of a workload in a testbed |
| `report` | holds what was seen against what was promised, and `gantt` draws it |
"""
