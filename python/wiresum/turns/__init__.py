"""Turns, live: a schedule of jobs over optical circuits is carried out, and what happens is held against its promise.

| module | what it does |
| --- | --- |
| `maker` | makes plans of jobs that share a network; `trees` has who sends to whom where switches sum together |
| `plans` | makes a schedule of plans from a timetable: ports, links and segments |
| `nodes` | gives jobs to switches and servers, and takes them back |
| `stage` | brings circuits, nodes and gates (`wiresum.gates`) from one interval to the next |
| `driver` | carries a schedule out; `journal` knows how far it, or a scheduler that is asked, is |
| `online` | asks a scheduler at each slot; `ports` chooses circuits for it |
| `darkness` | knows which circuits a change darkens |
| `light` | orders circuits at their devices, and waits for light |
| `live` | runs the jobs of a workload in a testbed |
| `report` | holds what was seen against what was promised, and `gantt` draws it |
| `adjustment` | gives what is left of a schedule other ports and times where some have failed |
| `explanation` | says in words who sends when, and who waits for whom |
"""
