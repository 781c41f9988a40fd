"""`wiresum bench switch`."""

from wiresum.bench.command import RunsOption, command, show
from wiresum.commandline import options
from wiresum.commandline.console import err


@command("Packets, on one core", "--runs 5")
def switch(runs: RunsOption = 7, as_json: options.JsonOption = False) -> None:
    """Time one packet through the kernel's switch under each slot policy, in the kernel's test-run."""
    from wiresum.bench import native

    with err().status("packets through the kernel's test-run"):
        show(native.switch(runs), as_json)
