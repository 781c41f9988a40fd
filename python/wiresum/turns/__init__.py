"""Turns, live: a schedule of jobs over optical circuits is carried out, and what happens is held against its promise.

| module | what it does |
| --- | --- |
| `maker` | makes plans of jobs that share a network |
| `plans` | makes a schedule of plans from a timetable: ports, links and segments |
| `nodes` | gives jobs to switches and servers, and takes them back |
| `stage` | brings circuits, nodes and gates (`wiresum.gates`) from one interval to the next |
| `driver` | carries a schedule out; `journal` knows how far it is |
| `online` | asks a scheduler at each slot; `ports` chooses circuits for it |
| `light` | orders circuits at their devices, and waits for light |
| `live` | runs the jobs of a workload in a testbed |
| `report` | holds what was seen against what was promised, and `gantt` draws it |
"""
