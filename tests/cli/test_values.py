"""Values of the command line: which ones are converted, and what is said of those that cannot be."""

from types import SimpleNamespace
from typing import Any, Literal

import pytest
from tests.cli.forks import wiresum
from typer import BadParameter

from wiresum.commandline.values import in_words, stands


def parameter(annotation: Any, choices: tuple[str, ...] | None = None, *, multiple: bool = False) -> Any:
    descriptor = SimpleNamespace(annotation=annotation, choices=choices)
    return SimpleNamespace(type_descriptor=descriptor, multiple=multiple, nargs=1)


@pytest.mark.parametrize(
    ("value", "of", "is_as_it_stands"),
    [
        ("7", parameter(str), True),
        ("7", parameter(int), False),
        (7, parameter(int), True),
        (True, parameter(int), False),
        (None, parameter(int), True),
        ("udp", parameter(Literal["udp", "xdp"], ("udp", "xdp")), True),
        ("tcp", parameter(Literal["udp", "xdp"], ("udp", "xdp")), False),
        (None, parameter(str, multiple=True), False),
        (["7"], parameter(str, multiple=True), False),
    ],
)
def test_only_what_is_of_its_type_is_left_alone(value: Any, of: Any, is_as_it_stands: bool) -> None:
    assert stands(value, of) is is_as_it_stands


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("topology star --workers x", "'x' should be a valid integer"),
        ("top --interval 0.01", "'0.01' should be greater than or equal to 0.1"),
        ("plan star --policy foo", "'--policy': 'foo' is not one of 'pool', 'cache'"),
        ("schema foo", "'FORMAT': 'foo' is not one of 'plan'"),
    ],
)
def test_a_wrong_value_is_said(line: str, said: str) -> None:
    done = wiresum(*line.split())
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_words_of_others_stay() -> None:
    assert in_words("no such thing", 7) == "no such thing"
    assert str(BadParameter(in_words("Value error, x", 7)).message) == "x"
