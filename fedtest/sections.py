"""Text in pieces, each under a line `==> name <==`, as `tail` heads files."""

from __future__ import annotations

import re


def sections(text: str) -> dict[str, str]:
    """Each piece by its name, without empty lines around it; what is before the first is none."""
    pieces = re.split(r"^==> (.*) <==$", text, flags=re.MULTILINE)
    return {name: body.strip("\n") for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}
