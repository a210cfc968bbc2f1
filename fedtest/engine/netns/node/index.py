"""Where torch for CPUs alone is had from: the index of such wheels, where it answers."""

from __future__ import annotations

import os
import re
import ssl
import threading
import urllib.error
import urllib.request

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
VARIABLE = "FEDTEST_TORCH_INDEX"
_PATIENCE = 6.0


def cpu_index() -> str:
    """The index of wheels of torch without CUDA."""
    return (os.environ.get(VARIABLE) or CPU_INDEX).rstrip("/")


def shown(index: str) -> str:
    """Return the address without the user and password that may stand in it."""
    return re.sub(r"(?<=://)[^/@]*@", "***@", index)


def why_not(index: str, patience: float = _PATIENCE) -> str:
    """Why wheels cannot be had there; empty if it answers. Within `patience` seconds."""
    said = [f"no answer within {patience:g} s"]
    # Looking up a name has no time-out of its own.
    thread = threading.Thread(target=lambda: said.insert(0, _ask(index, patience)), daemon=True)
    thread.start()
    thread.join(patience)
    return said[0]


def _ask(index: str, patience: float) -> str:
    try:
        with urllib.request.urlopen(f"{index}/torch/", timeout=patience) as answer:  # noqa: S310 - the user's own setting
            answer.read(1)
    except urllib.error.HTTPError as error:
        return f"it answers {error.code}"
    except urllib.error.URLError as error:
        # Whose certificates are good is the installer's to say, which is set up for it.
        return "" if isinstance(error.reason, ssl.SSLError) else str(error.reason)
    except (OSError, ValueError) as error:
        return str(error)
    return ""
