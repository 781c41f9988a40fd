"""Files that people write by hand: strict models, and errors that name the field and the remedy."""

import errno
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, ClassVar, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from wiresum import formats
from wiresum.errors import WiresumError

MAX_REPORTED_ERRORS = 8
"""More than a screenful of errors hides the first, which usually causes the rest."""

MAX_MESSAGE = 200
"""Letters of a message about a field: what follows is a value that somebody has given, at any length."""

MAX_VALUE = 60
"""Letters of such a value."""

MAX_FILE_BYTES = 64 << 20
"""Largest size of a document; a plan of ten thousand workers has 4 MB. It ends the reading of a device at once."""


MAX_SECONDS = 1e9
"""32 years: no trace of a cluster is longer, and nanoseconds of it fit 64 bits."""
MAX_WAIT_S = 1e6
"""12 days. The kernel counts a wait in milliseconds of 31 bits, and the simulator counts picoseconds in 64 bits."""
MIN_BPS, MAX_BPS = 1e-9, float(1 << 53)
"""Bounds of a rate. `MAX_BPS` is what a plan can hold. No time for `MAX_BYTES` overflows at `MIN_BPS`."""
MAX_BYTES = 1 << 53
"""9 PB: a floating-point number counts so many bytes exactly."""
MAX_COUNT = (1 << 32) - 1
"""As many as a 32-bit number counts."""
MAX_INTEGER = (1 << 63) - 1
"""Largest integer of Rust's and numpy's signed type."""
MAX_NUMBER = 1e30
"""Largest magnitude of a result: above any product of a count, a number of bytes and a time."""

Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]
WaitSeconds = Annotated[float, Field(gt=0, le=MAX_WAIT_S)]
BitsPerSecond = Annotated[float, Field(ge=MIN_BPS, le=MAX_BPS)]
Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
PositiveBytes = Annotated[int, Field(gt=0, le=MAX_BYTES)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
PositiveCount = Annotated[int, Field(gt=0, le=MAX_COUNT)]
Integer = Annotated[int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]
Number = Annotated[float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Amount = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
PositiveAmount = Annotated[float, Field(gt=0, le=MAX_NUMBER)]

KINDS = {
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}
"""Names of files that are not regular ones."""


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
            invalid_json = f"not valid JSON ({bad}); write one with `wiresum {cls.command or cls.what} --help`"
            raise cls.error(f"{where}: {formats.mistaken(text, cls.wanted()) or invalid_json}") from None

    @classmethod
    def wanted(cls) -> str:
        """The format that its files say they have; nothing where they say none."""
        field = cls.model_fields.get("format")
        return str(get_args(field.annotation)[0]) if field else ""

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


def open_regular(path: Path | str) -> BinaryIO:
    """Opens a regular file, and never waits: a FIFO blocks its reader, and a device may act on a reader.

    Raises:
        OSError: it cannot be opened, or is another kind of file.
    """
    _require_regular(os.stat(path).st_mode)
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    try:
        _require_regular(os.fstat(file.fileno()).st_mode)  # Another file may have taken the place of the first one.
    except OSError:
        file.close()
        raise
    return file


def _require_regular(mode: int) -> None:
    kind = KINDS.get(stat.S_IFMT(mode))
    if kind is not None:
        raise OSError(errno.EINVAL, f"is a {kind}, not a regular file")


def read_text(path: Path | str, what: str, error: type[WiresumError]) -> str:
    """The text of a regular file of at most `MAX_FILE_BYTES`, without a byte order mark.

    Args:
        path: of the file.
        what: the file is, for the message.
        error: what to raise where it cannot be read, is no text or is larger.
    """
    try:
        with open_regular(path) as file:
            content = file.read(MAX_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        byte = f"byte 0x{bad.object[bad.start]:02x} at position {bad.start}"
        raise error(f"{what} {path}: is no text in UTF-8 ({byte}); check the path, or save it as UTF-8") from None
    except (OSError, ValueError) as unreadable:  # not there, or no name that a file can have
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
    text = read_text(path, what, error)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as bad:
        problem = formats.mistaken(text) or f"not valid JSON ({bad}); check the path"
        raise error(f"{what} {path}: {problem}") from None


def format_of(path: Path | str, what: str, error: type[WiresumError]) -> str:
    """The format that a JSON file says it has; empty where it says none. Errors as for `read_json`."""
    document = read_json(path, what, error)
    return str(document.get("format", "")) if isinstance(document, dict) else ""


@contextmanager
def naming(path: Path | str, error: type[WiresumError]) -> Iterator[None]:
    """Has errors about what stands in a file name it."""
    try:
        yield
    except error as bad:
        raise error(f"{path}: {bad}") from None


def write_text(path: Path | str, text: str, what: str, error: type[WiresumError], *, is_secret: bool = False) -> None:
    """Writes a file in one step: readers see the old content or the new, whatever happens meanwhile.

    Args:
        path: of the file. What is there and is no ordinary file (a pipe, a terminal) is written to as it is.
        text: the new content.
        what: the file is, for the message.
        error: what to raise where it cannot be written.
        is_secret: the file's owner alone may read it; others may as far as the process's mask lets them.
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
            Path(draft).chmod((0o600 if is_secret else 0o666) & ~_mask())
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
            return f"{wanted} is wanted, and this is {_beginning(error['input'])}{formats.use(error['input'], wanted)}"
        case "model_type" | "model_attributes_type" | "dict_type":
            message = "should be an object with fields"
    problem = f"{message[0].lower()}{message[1:]}, not {_beginning(error['input'])}"
    return f"{field}: {problem}" if field else problem


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
