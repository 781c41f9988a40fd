"""The command line as its users meet it, in a process of its own, without the seconds that its imports take.

One process imports the package once, with the environment of a pipe, and forks for each command.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

OUT, ERR = 1, 2


def wiresum(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What the command `wiresum` with these arguments ends with and says."""
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        task = {"arguments": arguments, "cwd": str(cwd or Path.cwd()), "out": out.name, "err": err.name}
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(task) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


@cache
def _server() -> subprocess.Popen[str]:
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "200"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen([sys.executable, __file__], env=environment, **pipes)
    atexit.register(server.communicate)
    return server


def _serve() -> None:
    """Answers each task with an exit code, until its input ends."""
    import wiresum.planners.auto
    import wiresum.sim
    import wiresum.testbed
    import wiresum.turns.driver  # noqa: F401 (these are imported for all that will need them)
    from wiresum.cli import main

    for line in sys.stdin:
        task = json.loads(line)
        if (child := os.fork()) == 0:
            os._exit(_run(main, **task))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(main: Any, arguments: list[str], cwd: str, out: str, err: str) -> int:
    os.chdir(cwd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(out, os.O_WRONLY), OUT)
    os.dup2(os.open(err, os.O_WRONLY), ERR)
    sys.argv = ["wiresum", *arguments]
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else bool(code)


if __name__ == "__main__":
    _serve()
