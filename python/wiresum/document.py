"""Files that people write by hand: strict models, and errors that name the field and the remedy."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from wiresum.errors import WiresumError

MAX_REPORTED_ERRORS = 8
"""More than a screenful of errors hides the first, which usually causes the rest."""

MAX_MESSAGE = 200
"""Letters of a message about a field: what follows is a value that somebody has given, at any length."""

MAX_VALUE = 60
"""Letters of such a value."""

MAX_FILE_BYTES = 64 << 20
"""Largest size of a document; a plan of ten thousand workers has 4 MB. It ends the reading of a device at once."""


class Document(BaseModel):
    """A model without coercion or unknown fields: a typing mistake must not become a default."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class FileDocument(Document):
    """A document that is a file of its own. Subclasses say which error a bad one raises, and what it is called."""

    error: ClassVar[type[WiresumError]] = WiresumError
    what: ClassVar[str] = "document"
    command: ClassVar[str] = ""
    """The command that writes one, where its name is not `what`."""

    @classmethod
    def build(cls, **fields: Any) -> Self:
        """Makes a document from its fields; a bad one raises the subclass's `error`."""
        try:
            return cls.model_validate(fields)
        except ValidationError as invalid:
            raise cls.error(f"{cls.what}: {describe(invalid)}") from None

    @classmethod
    def parse(cls, text: str, source: str = "") -> Self:
        """Reads JSON.

        Args:
            text: the JSON.
            source: where it came from, for the message.

        Raises:
            WiresumError: the subclass's `error`, with a line for each bad field.
        """
        where = f"{cls.what} {source}".strip()
        try:
            return cls.model_validate(json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant))
        except ValidationError as invalid:
            raise cls.error(f"{where}: {describe(invalid)}") from None
        except (ValueError, RecursionError) as bad:
            raise cls.error(
                f"{where}: not valid JSON ({bad}); write one with `wiresum {cls.command or cls.what} --help`"
            ) from None

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Reads a file; errors as for `parse`."""
        return cls.parse(read_text(path, cls.what, cls.error), str(path))

    def to_json(self) -> str:
        """The document as JSON, without the fields that are absent."""
        return json.dumps(self.model_dump(mode="json", exclude_none=True), indent=2) + "\n"

    def write(self, path: Path | str) -> None:
        """Writes the document to a file.

        Raises:
            WiresumError: the subclass's `error`, where the file cannot be written.
        """
        write_text(path, self.to_json(), self.what, self.error)


def read_text(path: Path | str, what: str, error: type[WiresumError]) -> str:
    """The text of a file of at most `MAX_FILE_BYTES`.

    Args:
        path: of the file.
        what: the file is, for the message.
        error: what to raise where it cannot be read, is no text or is larger.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        text = content.decode("utf-8")
    except (OSError, ValueError) as unreadable:  # no text, or no name that a file can have
        reason = unreadable.strerror if isinstance(unreadable, OSError) else unreadable
        raise error(f"{what} {path}: cannot be read ({reason}); check the path") from None
    if len(content) > MAX_FILE_BYTES:
        raise error(f"{what} {path}: has more than {MAX_FILE_BYTES >> 20} MiB; check the path")
    return text


def is_there(path: Path | str) -> bool:
    """Whether there is such a path; what cannot be one, as its name is too long or has a zero, is not there."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def read_json(path: Path | str, what: str, error: type[WiresumError]) -> Any:
    """What a JSON file has, for readers that look at a part of it; errors as for `read_text`."""
    try:
        return json.loads(read_text(path, what, error))
    except (ValueError, RecursionError) as bad:
        raise error(f"{what} {path}: not valid JSON ({bad}); check the path") from None


def write_text(path: Path | str, text: str, what: str, error: type[WiresumError], mode: int = 0o666) -> None:
    """Writes a file in one step: readers see the old content or the new, whatever happens meanwhile.

    Args:
        path: of the file. What is there and is no ordinary file (a pipe, a terminal) is written to as it is.
        text: the new content.
        what: the file is, for the message.
        error: what to raise where it cannot be written.
        mode: permissions, of which the process's mask takes some away.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        target = path.resolve()
        handle, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(draft).chmod(mode & ~_mask())
            Path(draft).replace(target)
        except OSError:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as refused:
        raise error(f"{what} {path}: cannot be written ({refused.strerror}); check the path and the disk") from None


def _mask() -> int:
    """The process's mask of permissions, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


Location = tuple[int | str, ...]
"""Where in a document: names of fields, and indices into lists."""


def describe(invalid: ValidationError, place: Callable[[Location], str] = lambda _: "") -> str:
    """One line for each bad field: its place, what is wrong, and what to do.

    Args:
        invalid: what is wrong.
        place: what comes before a field's name, such as its line in a file.
    """
    errors = invalid.errors(include_url=False)
    # Nothing else is worth saying of a file of another format.
    errors = [error for error in errors if error["type"] == "literal_error" and error["loc"] == ("format",)] or errors
    lines = [place(error["loc"]) + _describe_one(error) for error in errors[:MAX_REPORTED_ERRORS]]
    if len(errors) > len(lines):
        lines.append(f"… and {len(errors) - len(lines)} more")
    return lines[0] if len(lines) == 1 else "".join(f"\n  {line}" for line in lines)


def _describe_one(error: ErrorDetails) -> str:
    field = _field(error["loc"])[:MAX_MESSAGE]
    message = error["msg"].removeprefix("Value error, ")
    if len(message) > MAX_MESSAGE:
        message = message[:MAX_MESSAGE] + "…"
    match error["type"]:
        case "missing":
            return f"{field}: is missing; add it"
        case "extra_forbidden":
            return f"{field}: is not a known field; remove it or correct its spelling"
        case "value_error":
            return f"{field}: {message}" if field else message
        case "literal_error" if error["loc"] == ("format",):
            wanted = message.removeprefix("Input should be ").strip("'")
            return f"{wanted} is wanted, and this is {_beginning(error['input'])}{_use(error['input'], wanted)}"
    return f"{field}: {message[0].lower()}{message[1:]}, not {_beginning(error['input'])}"


REMEDIES = {
    "wiresum-topology": "a topology; make a plan of it with `wiresum plan`",
    "wiresum-plan": "a plan; `wiresum predict`, `wiresum-node` and `WIRESUM_PLAN` take it",
    "wiresum-scenario": "a scenario; run it with `wiresum simulate`",
    "wiresum-schedule": "a schedule; run it with `wiresum circuits run`",
}
"""What files of other formats are, and what they are for, by the name before the format's version."""


def _use(given: Any, wanted: str) -> str:
    """What to do with a file of another format than is wanted."""
    name = given.partition("/")[0] if isinstance(given, str) else ""
    if name == wanted.partition("/")[0]:
        return ", another version; make it again with this release"
    return f", {REMEDIES[name]}" if name in REMEDIES else "; check the path"


def _beginning(value: Any) -> str:
    """What somebody has given, as JSON; of a million values only those are written that are shown."""
    shown = ""
    for piece in json.JSONEncoder(default=str).iterencode(value):
        shown += piece
        if len(shown) >= MAX_VALUE:
            break
    return shown[:MAX_VALUE]


def _field(location: Location) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location]
    return "".join(parts).removeprefix(".")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON leaves the meaning of a repeated field open; here it is a mistake."""
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field `{next(n for n in names if names.count(n) > 1)}` is given twice")
    return table


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")
