"""What native workers of a benchmark print, and what is said of one that fails."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wiresum.bench.workers import answers
from wiresum.errors import TestbedError


class Here:
    """This machine in place of a testbed."""

    workers = ("w0", "w1")

    def spawn(self, _worker, command, **options):
        return subprocess.Popen(command, **options)


def both(*programs, patience_s=60.0):
    return answers(Here(), [[sys.executable, "-c", program] for program in programs], "rows", patience_s)


def test_answers_come_by_rank():
    assert both("import time; time.sleep(0.2); print([0])", "print([1])") == [[0], [1]]


def test_the_last_words_of_a_worker_that_fails_are_said():
    with pytest.raises(TestbedError, match=r"^rows: worker 1 ended with 1: no such row$"):
        both("print(0)", "raise SystemExit('first\\nno such row')")


def test_a_worker_that_takes_too_long_is_an_error():
    with pytest.raises(TestbedError, match=r"^rows: worker 0 has not ended within 0\.1 s; see"):
        both("import time; time.sleep(5)", "print(1)", patience_s=0.1)
