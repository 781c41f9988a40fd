"""Rates, sizes and times as people write them."""

import re

import typer

RATE_UNITS = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
SIZE_UNITS = {
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
}  # fmt: skip
TIME_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
UNLIMITED = "none"


def parse_rate(text: str) -> float | None:
    """bit/s from `500mbit` or `1.5gbit`; None from `none`.

    Raises:
        typer.BadParameter: it is neither.
    """
    return None if text == UNLIMITED else _parse(text, RATE_UNITS, "a rate, as 500mbit, 1gbit or none")


def parse_size(text: str) -> int:
    """Bytes from `25MB` or `64KiB`.

    Raises:
        typer.BadParameter: it is not a size.
    """
    return round(_parse(text, SIZE_UNITS, "a size, as 25MB or 64KiB"))


def parse_seconds(text: str) -> float:
    """0.02 from `20ms`, 0.0 from `0s`.

    Raises:
        typer.BadParameter: it is not a time.
    """
    wanted = "a time, as 20ms, 50us or 1s"
    return 0.0 if re.fullmatch(r"0[a-z]*", text) else _parse(text, TIME_UNITS, wanted)


def parse_fraction(text: str) -> float:
    """0.01 from `1%` or `0.01`.

    Raises:
        typer.BadParameter: it is neither, or not from 0 to below 1.
    """
    try:
        fraction = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction < 1:
        raise typer.BadParameter(f"{text!r} is not a fraction; give one from 0 to below 1, as 1% or 0.01")
    return fraction


def parse_numbers(text: str) -> tuple[float, ...]:
    """Positive numbers from `64,256` or `25e3`.

    Raises:
        typer.BadParameter: one of them is not.
    """
    try:
        numbers = tuple(float(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 < number < float("inf") for number in numbers):
        raise typer.BadParameter(f"{text} is not a list of positive numbers, as 64,256")
    return numbers


def parse_starts(given: list[str]) -> dict[str, float]:
    """Seconds by worker from `W3=2`.

    Raises:
        typer.BadParameter: it has another form.
    """
    starts: dict[str, float] = {}
    for text in given:
        name, _, seconds = text.partition("=")
        try:
            starts[name] = float(seconds)
        except ValueError:
            raise typer.BadParameter(f"--start {text}: give a worker and seconds, as W3=2") from None
    return starts


def _parse(text: str, units: dict[str, float] | dict[str, int], wanted: str) -> float:
    match = re.fullmatch(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[A-Za-z]+)", text)
    unit = units.get(match["unit"].lower()) if match else None
    if match is None or unit is None or not float(match["number"]) > 0:
        raise typer.BadParameter(f"{text} is not {wanted}")
    return float(match["number"]) * unit
