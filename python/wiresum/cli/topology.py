"""`wiresum topology`: prints topologies, to be changed and used as files."""

from typing import Annotated

import typer

from wiresum.cli.options import (
    ColocatedOption,
    RateOption,
    ServerRateOption,
    ServersOption,
    WorkersOption,
    load_topology,
)
from wiresum.cli.quantities import parse_rate
from wiresum.plan import TOPOLOGIES

app = typer.Typer(help="Print a topology, to change it and use it as a file.", no_args_is_help=True)


@app.command(epilog="Example: `wiresum topology star --workers 8 --rate 250mbit > star8.json`")
def star(workers: WorkersOption = None, rate: RateOption = None) -> None:
    """Workers around one switch that sums."""
    print(load_topology("star", workers=workers, rate=rate).to_json(), end="")


@app.command(epilog="Example: `wiresum topology xagg --scale 0.005 > xagg.json`")
def xagg(scale: Annotated[float, typer.Option(help="Factor on every rate of the paper")] = 0.01) -> None:
    """The test bed of XAgg (Fig. 12): seven workers with unequal links, two servers, a parameter server."""
    print(load_topology("xagg", scale=scale).to_json(), end="")


@app.command(epilog="Example: `wiresum topology servers --workers 8 --servers 4 --rate 250mbit > servers.json`")
def servers(
    workers: WorkersOption = None,
    rate: RateOption = None,
    servers: ServersOption = None,
    server_rate: ServerRateOption = None,
    colocated: ColocatedOption = None,
) -> None:
    """Workers and aggregation servers with equal links around a switch that only forwards."""
    made = load_topology(
        "servers", workers=workers, rate=rate, servers=servers, server_rate=server_rate, colocated=colocated
    )
    print(made.to_json(), end="")


@app.command(epilog="Example: `wiresum topology stragglers --slow-rate 25mbit > stragglers.json`")
def stragglers(
    rate: Annotated[str, typer.Option("--rate", help="Of every link but W2's")] = "100mbit",
    slow_rate: Annotated[str, typer.Option("--slow-rate", help="Of W2's link")] = "50mbit",
    both_ways: Annotated[bool, typer.Option("--both-ways", help="Limit results too, not only gradients")] = False,
) -> None:
    """XAgg's example of what unequal workers cost (Fig. 1): four workers, a server, a parameter server."""
    rates = {"rate_bps": parse_rate(rate), "slow_rate_bps": parse_rate(slow_rate)}
    if None in rates.values():
        raise typer.BadParameter("every link of this topology has a rate; give one, as 100mbit", param_hint="--rate")
    print(TOPOLOGIES["stragglers"](**rates, both_ways=both_ways).to_json(), end="")
