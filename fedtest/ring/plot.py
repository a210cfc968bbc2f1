"""training.png: loss and accuracy, and where the time of a step goes.

Drawn with Pillow, which torchvision needs anyway: so there is a picture wherever
there is a training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PICTURE = "training.png"
SIZE = (900, 760)
LEFT, RIGHT = 80, 820  # where the panels begin and end
TOP = (50, 380)  # of the picture: loss and accuracy
BOTTOM = (440, 690)  # times
BLACK, GREY, PALE = "#000000", "#808080", "#e4e4e4"
RED, BLUE, ORANGE, SKY = "#c0392b", "#1f5fa8", "#f0b27a", "#9cc3e6"
TEXT = 11  # pixels: the height of a line
_TICKS = 5

Point = tuple[float, float]


def draw(directory: Path, rows: list[dict[str, Any]], title: str) -> str:
    """Draw the rows of metrics.jsonl; returns a line that says what came of it."""
    picture = picture_of(rows, title)
    try:
        picture.save(directory / PICTURE)
    except OSError as error:
        return f"no {PICTURE}: {error}"
    return f"drawn: {directory / PICTURE}"


def picture_of(rows: list[dict[str, Any]], title: str) -> Any:
    """The picture itself."""
    steps = [row for row in rows if "loss" in row]
    # A training that has diverged has rows without a loss.
    fell = [(row["step"], max(row["loss"], 1e-6)) for row in steps if _finite(row["loss"])]
    tests = [row for row in rows if "test_accuracy" in row]
    picture = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(picture)
    last = max((row["step"] for row in rows), default=1)
    pen.text((LEFT, 14), title, fill=BLACK)

    # Logarithmic: a loss falls by factors.
    losses = [value for _, value in fell] or [1.0]
    low = math.floor(math.log10(min(losses)))
    high = max(math.ceil(math.log10(max(losses))), low + 1)
    loss = Panel(pen, TOP, last, low, high)
    loss.frame([(n, f"{10.0**n:g}") for n in range(low, high + 1)], "loss", RED)
    loss.line([(step, math.log10(value)) for step, value in fell], RED)

    least = min([row["accuracy"] for row in steps] + [row["test_accuracy"] for row in tests] + [1])
    accuracy = Panel(pen, TOP, last, min(math.floor(least * 10) / 10, 0.9), 1.0)
    accuracy.right(lambda value: f"{value:.2f}", "accuracy", BLUE)
    accuracy.line([(row["step"], row["accuracy"]) for row in steps], SKY)
    accuracy.line([(row["step"], row["test_accuracy"]) for row in tests], BLUE, dots=True)
    legend(pen, TOP, [("loss", RED), ("accuracy, training", SKY), ("accuracy, test", BLUE)])

    both = [row["compute_ms"] + row["communication_ms"] for row in steps]
    most = _round_up(max(both, default=1.0))
    times = Panel(pen, BOTTOM, last, 0, most)
    times.frame([(most * n / _TICKS, f"{most * n / _TICKS:g}") for n in range(_TICKS + 1)], "ms")
    times.area([(row["step"], row["compute_ms"]) for row in steps], ORANGE, [0.0] * len(steps))
    times.area(
        list(zip((row["step"] for row in steps), both, strict=True)),
        SKY,
        [row["compute_ms"] for row in steps],
    )
    times.below()
    legend(pen, BOTTOM, [("compute, of a step", ORANGE), ("communication", SKY)])
    return picture


@dataclass(frozen=True)
class Panel:
    """A part of the picture in which steps go to the right and `low` to `high` upwards."""

    pen: Any
    place: tuple[int, int]  # its upper and lower edge
    last: int  # step
    low: float
    high: float

    def at(self, step: float, value: float) -> Point:
        upper, lower = self.place
        share = (value - self.low) / (self.high - self.low)
        return LEFT + (RIGHT - LEFT) * step / self.last, lower - (lower - upper) * share

    def frame(self, ticks: Sequence[tuple[float, str]], name: str, colour: str = BLACK) -> None:
        for value, text in ticks:
            _, y = self.at(0, value)
            self.pen.line([(LEFT, y), (RIGHT, y)], fill=PALE)
            width = self.pen.textlength(text)
            self.pen.text((LEFT - 8 - width, y - TEXT / 2), text, fill=colour)
        self.pen.rectangle([(LEFT, self.place[0]), (RIGHT, self.place[1])], outline=GREY)
        self.pen.text((12, self.place[0] - 18), name, fill=colour)

    def right(self, told: Callable[[float], str], name: str, colour: str) -> None:
        """The same on the right edge."""
        for number in range(_TICKS + 1):
            value = self.low + (self.high - self.low) * number / _TICKS
            _, y = self.at(0, value)
            self.pen.text((RIGHT + 8, y - TEXT / 2), told(value), fill=colour)
        self.pen.text((RIGHT + 8, self.place[0] - 22), name, fill=colour)

    def below(self) -> None:
        """What steps there are."""
        for number in range(_TICKS + 1):
            step = round(self.last * number / _TICKS)
            x, y = self.at(step, self.low)
            self.pen.text((x - self.pen.textlength(str(step)) / 2, y + 6), str(step), fill=BLACK)
        self.pen.text(((LEFT + RIGHT) / 2 - 12, self.place[1] + 26), "step", fill=BLACK)

    def line(self, values: Sequence[Point], colour: str, *, dots: bool = False) -> None:
        points = [self.at(*value) for value in values]
        if len(points) > 1:
            self.pen.line(points, fill=colour, width=2)
        for x, y in points if dots or len(points) == 1 else ():
            self.pen.ellipse([(x - 4, y - 4), (x + 4, y + 4)], fill=colour)

    def area(self, values: Sequence[Point], colour: str, floor: Sequence[float]) -> None:
        """What is between the values and the floor."""
        over = [self.at(*value) for value in values]
        under = [self.at(step, value) for (step, _), value in zip(values, floor, strict=True)]
        if len(over) > 1:
            self.pen.polygon([*over, *reversed(under)], fill=colour)


def legend(pen: Any, place: tuple[int, int], items: Sequence[tuple[str, str]]) -> None:
    x = float(LEFT + 140)
    y = place[0] - 18
    for text, colour in items:
        pen.rectangle([(x, y + 2), (x + 14, y + 10)], fill=colour)
        pen.text((x + 20, y), text, fill=BLACK)
        x += 44 + pen.textlength(text)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _round_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= value)
