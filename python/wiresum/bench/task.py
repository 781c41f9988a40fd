"""What a benchmark tells its ranks: fields that travel as one argument of the command line."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import ClassVar, Self


@dataclass(frozen=True)
class RankTask:
    """Base of what the processes of one benchmark are told; its fields are those of JSON.

    Attributes:
        program: the module that a rank runs, of tasks that stand apart from it, as who tells ranks needs no PyTorch.
            Others are in it.
    """

    program: ClassVar[str] = ""

    def to_json(self) -> str:
        """The task as an argument."""
        return json.dumps(asdict(self))

    def command(self) -> list[str]:
        """What a rank runs."""
        return [sys.executable, "-m", self.program or type(self).__module__, self.to_json()]

    @classmethod
    def told(cls) -> Self:
        """The task of this process, from its first argument."""
        return cls(**json.loads(sys.argv[1]))
