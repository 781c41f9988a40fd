"""What files of Wiresum say that they are, and what to do with one that is not what was wanted."""

import json
import re

FIELD = re.compile(r'^\s*\{?\s*"?format"?\s*[:=]\s*"(?P<format>wiresum-[a-z-]+/\d+)"', re.MULTILINE)
"""The field `format`, in JSON and in TOML."""
SEARCHED = 4096
"""Letters at the beginning of a file in which the field is looked for."""
KINDS = {
    "wiresum-circuit-instance": "an instance; `wiresum schedule` takes it alone",
    "wiresum-evaluation": "times of measured rounds; `wiresum plan --evaluation` takes them",
    "wiresum-hosts": "a profile of hosts; `wiresum predict --hosts` takes it",
    "wiresum-hot-map": "a hot map; `wiresum sparse layout` takes it, and a plan with tables names it",
    "wiresum-plan": "a plan; `wiresum predict`, `wiresum-node` and `WIRESUM_PLAN` take it",
    "wiresum-scenario": "a scenario; run it with `wiresum simulate`",
    "wiresum-schedule": "a schedule; run it with `wiresum circuits run`",
    "wiresum-sparse-job": "a sparse job; `wiresum-node --tables` takes it",
    "wiresum-tables": "tables of a sparse model; `wiresum plan --tables` takes them",
    "wiresum-timetable": "a timetable; run it with `wiresum circuits run`",
    "wiresum-topology": "a topology; make a plan of it with `wiresum plan`",
    "wiresum-workload": "a workload; `wiresum schedule --jobs` takes it",
}
"""What files are, and what they are for, by the name before the format's version."""


def said(text: str) -> str:
    """The format that a file says it has; nothing where it says none.

    Example:
        >>> said('format = "wiresum-scenario/1"')
        'wiresum-scenario/1'
    """
    found = FIELD.search(text[:SEARCHED])
    return found["format"] if found else ""


def use(given: object, wanted: str) -> str:
    """What a file of another format is, and what to do with it, as the end of a sentence.

    Args:
        given: what it says that it is, or anything else that stands there.
        wanted: the format that it should have; any where empty.

    Example:
        >>> use("wiresum-topology/1", "wiresum-plan/2")
        ', a topology; make a plan of it with `wiresum plan`'
    """
    name = given.partition("/")[0] if isinstance(given, str) else ""
    if name and name == wanted.partition("/")[0]:
        return ", another version; make it again with this release"
    return f", {KINDS[name]}" if name in KINDS else "; check the path"


def mistaken(text: str, wanted: str = "") -> str:
    """Why a text cannot be read, where it is empty or of another format; nothing where it is neither.

    Args:
        text: of the file.
        wanted: the format that it should have; any where empty.
    """
    if not text.strip():
        return "is empty; check the path"
    given = said(text)
    if not given or given == wanted:
        return ""
    return f"{f'{wanted} is wanted, and ' if wanted else ''}this is {json.dumps(given)}{use(given, wanted)}"
