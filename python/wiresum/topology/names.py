"""Names in files."""

from typing import Annotated

from pydantic import Field

MAX_NAME_LENGTH = 32
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$")]
"""Names become parts of namespace and file names."""
