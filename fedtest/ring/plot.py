"""training.png: loss and accuracy, and where the time of a step goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

PICTURE = "training.png"


def draw(directory: Path, rows: list[dict[str, Any]], title: str) -> str:
    """Draw the rows of metrics.jsonl; returns a line that says what came of it.

    Needs matplotlib; a training is as good without.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 - optional, and slow to import

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError as error:
        return f"no {PICTURE}: {error} (pip install matplotlib)"
    steps = [row for row in rows if "loss" in row]
    tests = [row for row in rows if "test_accuracy" in row]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 7), sharex=True, layout="constrained")
    top.set_title(title)
    top.plot(_of(steps, "step"), _of(steps, "loss"), color="tab:red", label="loss")
    top.set_ylabel("loss")
    top.set_yscale("log")
    right = top.twinx()
    right.plot(_of(steps, "step"), _of(steps, "accuracy"), alpha=0.4, label="accuracy, training")
    right.plot(_of(tests, "step"), _of(tests, "test_accuracy"), "o-", label="accuracy, test")
    right.set_ylabel("accuracy")
    lines = [*top.get_lines(), *right.get_lines()]
    top.legend(lines, [line.get_label() for line in lines], loc="center right")
    bottom.stackplot(
        _of(steps, "step"),
        _of(steps, "compute_ms"),
        _of(steps, "communication_ms"),
        labels=["compute", "communication"],
    )
    bottom.set_xlabel("step")
    bottom.set_ylabel("time of a step (ms)")
    bottom.legend(loc="upper right")
    try:
        figure.savefig(directory / PICTURE, dpi=100)
    except OSError as error:
        return f"no {PICTURE}: {error}"
    finally:
        plt.close(figure)
    return f"drawn: {directory / PICTURE}"


def _of(rows: list[dict[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows]
