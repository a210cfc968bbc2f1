"""Variables that act when an interpreter starts or a library is loaded.

A zygote has done both, so a process whose value differs cannot come from it.
Which of them Python code read during the imports is recorded there and then;
what C code reads cannot be seen, so those are known by their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_PYTHON = "PYTHON"
_LOADER = ("LD_", "GLIBC_", "MALLOC_")
_THREADS = ("OMP_", "GOMP_", "KMP_", "TBB_")
_ALGEBRA = ("MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "NPY_", "NUMEXPR_")
_TORCH = ("TORCH_", "PYTORCH_", "ATEN_", "C10_", "CUDA_", "HIP_")
PREFIXES = (_PYTHON, *_LOADER, *_THREADS, *_ALGEBRA, *_TORCH)
NAMES = frozenset({"LANG", "LC_ALL", "LC_CTYPE", "LOCPATH", "TZ"})

HONOURED = frozenset({"PYTHONUNBUFFERED", "PWD", "OLDPWD", "SHLVL", "_"})
"""May differ: done again in the process, or the shell's own."""


def acts(name: str) -> bool:
    """Whether it acts before any program runs, as far as that is known beforehand."""
    return name not in HONOURED and (name in NAMES or name.startswith(PREFIXES))


def difference(mine: Mapping[str, str], theirs: Mapping[str, str], read: Collection[str]) -> str:
    """Why `theirs` cannot be had from a process started with `mine`; empty if it can.

    `read`: names that were read during the imports.
    """
    for name in sorted({*mine, *theirs} - HONOURED):
        if not (acts(name) or name in read):
            continue
        have, want = mine.get(name), theirs.get(name)
        if name.startswith(_PYTHON):  # where an empty one is as good as none
            have, want = have or None, want or None
        if have != want:
            return f"{name} acts before the program runs and is {_shown(want)}, not {_shown(have)}"
    return ""


def relative_path(env: Mapping[str, str]) -> str:
    """The first entry of PYTHONPATH that depends on the working directory, or an empty string."""
    value = env.get("PYTHONPATH", "")
    entries = value.split(":") if value else []
    return next((entry or "''" for entry in entries if not entry.startswith("/")), "")


def _shown(value: str | None) -> str:
    return "unset" if value is None else repr(value if len(value) < 60 else value[:57] + "...")
