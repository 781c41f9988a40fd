"""`wiresum circuits run`: the driver of a schedule, where there is no testbed to make."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.commandline.console import note, print_json
from wiresum.commandline.options import JsonOption, load_topology
from wiresum.errors import ScheduleError, TopologyError

if TYPE_CHECKING:
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.plan.schedule import Schedule
    from wiresum.plan.shared import SharedNetwork
    from wiresum.topology.model import Topology
    from wiresum.topology.optical import Circuit
    from wiresum.turns.light import Light, Probe
    from wiresum.turns.online import Online
    from wiresum.turns.stage import Seen

LISTEN = "0.0.0.0:7420"
PLANS_VARIABLE = "WIRESUM_PLANS"
TURNS_VARIABLE = "WIRESUM_TURNS"
PROGRESS, KEPT = "progress.json", "schedule.json"
"""In the folder of plans: how far the schedule is, and the schedule with the secrets that ranks have."""
SECRETS = "job-*.json.secret"
"""In the folder of plans: the jobs' secrets."""
PROBE_S = 5.0
"""Seconds that a probe may take; `ping -c 1 -W 1` over ssh takes less than two."""


def run(
    schedule: Annotated[Path, typer.Argument(metavar="SCHEDULE", help="Schedule, or timetable of `wiresum schedule`")],
    topology: Annotated[str, typer.Option("--topology", "-t", help="Topology of the schedule: a name or a file")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND…]", help="Command that starts the ranks; the run ends with it"),
    ] = None,
    jobs: Annotated[Path | None, typer.Option("--jobs", help="Workload file of a timetable's jobs")] = None,
    driver: Annotated[
        list[str] | None,
        typer.Option("--driver", "-d", help="Address of a device, as oxc=sonic://HOST [default: as in the topology]"),
    ] = None,
    control: Annotated[
        list[str] | None,
        typer.Option("--control", help="Control socket of a switch's or server's daemon, as u0=/run/u0.sock"),
    ] = None,
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT for ranks, or the path of a socket")] = LISTEN,
    plans: Annotated[
        Path, typer.Option("--plans", help="Folder for the jobs' plans, as job-1.json, and for how far the schedule is")
    ] = Path("plans"),
    probe: Annotated[
        str | None,
        typer.Option("--probe", help="Shell command that succeeds if a circuit carries packets; see docs/circuits.md"),
    ] = None,
    online: Annotated[
        bool, typer.Option("--online", help="Ask the timetable's scheduler anew at each slot, with what is known then")
    ] = False,
    slot: Annotated[str, typer.Option("--slot", help="Time after which --online may change circuits")] = "1s",
    trees: Annotated[
        bool, typer.Option("--trees/--no-trees", help="Let switches of several units sum a job together, with --online")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Carry out a schedule: order its circuits, give jobs to switches and servers, tell ranks when they may send.

    Each job's ranks need WIRESUM_TURNS, the address to which this listens, and WIRESUM_PLAN, the plan of the job in
    `--plans`. The command has WIRESUM_TURNS and WIRESUM_PLANS, the folder, in its environment. If the driver dies, the
    same command line goes on with the schedule, where it is started again within four seconds.

    With `--online` ranks need WIRESUM_TURNS, WIRESUM_JOB, the job's number, and WIRESUM_SECRET_FILE, the job's secret
    in `--plans`, and wait for their plans.
    """
    from wiresum.gates.listener import Gates
    from wiresum.turns.driver import TurnsDriver
    from wiresum.turns.journal import Journal, OnlineJournal
    from wiresum.turns.nodes import Nodes
    from wiresum.turns.online import Online, OnlineDriver

    there = load_topology(topology)
    plans.mkdir(parents=True, exist_ok=True)
    known = _known(plans)
    if online:
        work: Online | Schedule = _online(schedule, there, jobs, slot, known, trees=trees)
    else:
        work = _kept(_schedule(schedule, there, jobs), plans)
    nodes = Nodes({name: Path(path) for name, path in _named(control or [], "--control", "u0=/run/u0.sock").items()})
    if isinstance(work, Online):
        _write_secrets(work.secrets, plans)
    with ExitStack() as stack:
        light = stack.enter_context(closing(_light(there, driver or [], _prober(probe, _network(work, there)))))
        gates = stack.enter_context(Gates(listen, {**known, **_secrets(work)}))
        turns: TurnsDriver | OnlineDriver
        if isinstance(work, Online):
            turns = OnlineDriver(work, light, nodes, gates, journal=OnlineJournal(plans / PROGRESS, work), tell=note)
            files = f"WIRESUM_JOB=N and WIRESUM_SECRET_FILE={plans}/job-N.json.secret"
            note(f"ranks: WIRESUM_TURNS={gates.address}, {files}")
        else:
            turns = TurnsDriver(work, there, light, nodes, gates, journal=Journal(plans / PROGRESS, work), tell=note)
            _write(turns.plans, plans)
            note(f"ranks: WIRESUM_TURNS={gates.address}, and WIRESUM_PLAN={plans}/job-N.json")
        launcher = _launch(command or [], gates.address, plans)
        try:
            seen = turns.run()
        finally:
            # Without a driver, gates open by themselves and ranks go on.
            code = launcher.wait() if launcher else 0
        refused = gates.refused
    for file in plans.glob(SECRETS) if online else ():
        file.unlink()
    if refused:
        note(f"{refused} lines at {listen} were refused: they had no key of the job that they named, or were old")
    if as_json:
        print_json({"refused_lines": refused, **_as_json(seen)})
    raise typer.Exit(code)


def _schedule(file: Path, topology: Topology, jobs: Path | None) -> Schedule:
    """A schedule as it is; a timetable and its workload as a schedule."""
    from wiresum.document import format_of
    from wiresum.plan.schedule import Schedule
    from wiresum.schedule.model import Timetable
    from wiresum.turns.plans import as_schedule
    from wiresum.workload.model import Workload

    if not format_of(file, "schedule", ScheduleError).startswith("wiresum-timetable/"):
        return Schedule.read(file)
    if jobs is None:
        raise ScheduleError(f"{file} is a timetable, which numbers jobs; give the workload that it is of, as --jobs")
    return as_schedule(Timetable.read(file), topology, Workload.read(jobs))


def _known(folder: Path) -> dict[int, str]:
    """Secrets that ranks of a driver before have: if it has died, they are believed by these alone."""
    from wiresum.document import read_text

    files = {file: file.name.removeprefix("job-").removesuffix(".json.secret") for file in folder.glob(SECRETS)}
    return {
        int(number): read_text(file, "secret", ScheduleError).strip()
        for file, number in files.items()
        if number.isdigit()
    }


def _secrets(work: Schedule | Online) -> dict[int, str]:
    from wiresum.plan.schedule import Schedule
    from wiresum.turns.driver import secrets_of

    return secrets_of(work) if isinstance(work, Schedule) else work.secrets


def _write_secrets(secrets: Mapping[int, str], folder: Path) -> None:
    from wiresum.document import write_text

    for number, secret in secrets.items():
        write_text(folder / f"job-{number}.json.secret", secret + "\n", "secret", ScheduleError, is_secret=True)


def _kept(made: Schedule, folder: Path) -> Schedule:
    """The schedule as a driver before has carried it out: ranks have the secrets that were drawn then."""
    from wiresum.plan.schedule import Schedule

    file = folder / KEPT
    if (folder / PROGRESS).exists() and file.exists():
        before = Schedule.read(file)
        if before.with_secrets(None) == made.with_secrets(None):
            return before
    made.write(file)
    return made


def _online(
    file: Path, topology: Topology, jobs: Path | None, slot: str, known: Mapping[int, str], *, trees: bool
) -> Online:
    """The scheduler of a timetable, for jobs of its workload."""
    from wiresum.commandline.quantities import parse_seconds
    from wiresum.schedule import WITHOUT_SLOTS
    from wiresum.schedule.model import Timetable
    from wiresum.turns.online import Online
    from wiresum.turns.plans import carried
    from wiresum.workload.instance import instance
    from wiresum.workload.model import Workload

    if jobs is None:
        raise ScheduleError(f"--online asks about jobs; give the workload that {file} is of, as --jobs")
    workload, scheduler = Workload.read(jobs), Timetable.read(file).scheduler
    asked = instance(topology, workload, parse_seconds(slot), slots=scheduler != WITHOUT_SLOTS, trees=trees)
    return Online.of(topology, workload, carried(asked, workload), scheduler, known=known)


def _network(work: Schedule | Online, topology: Topology) -> SharedNetwork:
    from wiresum.plan.schedule import Schedule
    from wiresum.plan.shared import SharedNetwork

    if isinstance(work, Schedule):
        return SharedNetwork.of(work, topology)
    return work.network


def _prober(command: str | None, network: SharedNetwork) -> Probe | None:
    """Runs a command for each new circuit, which has the circuit's two ends in its environment."""
    if command is None:
        return None

    def gets_through(circuit: Circuit) -> bool:
        (source, own), (target, far) = network.addresses(network.name(circuit)).items()
        ends = {"SOURCE": source, "SOURCE_ADDRESS": own, "TARGET": target, "TARGET_ADDRESS": far}
        told = {f"WIRESUM_{name}": value for name, value in ends.items()}
        try:
            ran = subprocess.run(["sh", "-c", command], env={**os.environ, **told}, timeout=PROBE_S, check=False)
        except subprocess.TimeoutExpired:
            return False
        return ran.returncode == 0

    return gets_through


def _light(topology: Topology, given: Sequence[str], probe: Probe | None) -> Light:
    from wiresum.circuits.drivers import connect
    from wiresum.topology.circuits import optical_switches
    from wiresum.turns.light import Light

    switches = optical_switches(topology)
    addresses = {switch.name: switch.oxc.driver for switch in switches if switch.oxc and switch.oxc.driver}
    if len(switches) == 1 and len(given) == 1 and "=" not in given[0].split("://")[0]:
        addresses[switches[0].name] = given[0]
    else:
        addresses |= _named(given, "--driver", "oxc=sonic://HOST")
    strange = sorted(set(addresses) - {switch.name for switch in switches})
    if strange:
        known = ", ".join(switch.name for switch in switches) or "none"
        raise TopologyError(f"--driver {strange[0]}: topology {topology.name} has the optical switches: {known}")
    return Light(topology, {name: connect(address) for name, address in addresses.items()}, probe)


def _named(given: Sequence[str], option: str, example: str) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(f"{text} has no name; write it as {example}", param_hint=option)
        found[name] = value
    return found


def _write(plans: Mapping[int, AggregationPlan], folder: Path) -> None:
    for number, plan in plans.items():
        plan.write(folder / f"job-{number}.json")


def _launch(command: Sequence[str], address: str, plans: Path) -> subprocess.Popen[bytes] | None:
    if not command:
        return None
    told = {TURNS_VARIABLE: address, PLANS_VARIABLE: str(plans.resolve())}
    try:
        return subprocess.Popen(command, env={**os.environ, **told})
    except OSError as error:
        raise ScheduleError(f"{command[0]} cannot be started ({error.strerror}); give a command that can") from None


def _as_json(seen: Seen) -> dict[str, object]:
    from dataclasses import asdict

    return {"setups": seen.setups, **asdict(seen)}
