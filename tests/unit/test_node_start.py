"""What the node image's Python starts with, tried on a torch of a few lines."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from fedtest.bundle import bundle

if TYPE_CHECKING:
    from pathlib import Path

TORCH = '''
class TCPStore:
    def __init__(self, host_name, port, world_size=None, is_master=False, timeout=1,
                 wait_for_workers=True, multi_tenant=False, master_listen_fd=None, use_libuv=True):
        """With use_libuv: bool = True."""
        if use_libuv and not BUILT_WITH:
            raise RuntimeError(
                "use_libuv was requested but PyTorch was build without libuv support, and so on"
            )
        if port == 1:
            raise RuntimeError("nobody answers")
        self.made = (host_name, port, is_master, use_libuv)
'''
POSITIONS = "'h', 7, None, True, 1, True, False, None, True"


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    (tmp_path / "torch" / "distributed").mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").touch()
    return tmp_path / "torch" / "distributed" / "__init__.py"


def said(torch: Path, code: str) -> str:
    code = f"import sys, fedtest_tcpstore\n{code}"
    paths = f"{torch.parents[2]}:{bundle() / 'images' / 'node'}"
    done = subprocess.run(
        [sys.executable, "-B", "-S", "-c", code],  # nothing but this starts with it
        env={"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return (done.stdout + done.stderr).strip()


@pytest.mark.parametrize("built_with", [False, True])
@pytest.mark.parametrize(
    "given", ["'h', 7, is_master=True", "'h', port=7, is_master=True, use_libuv=True", POSITIONS]
)
def test_a_store_is_made_without_libuv_where_torch_has_none(
    torch: Path, given: str, built_with: bool
) -> None:
    torch.write_text(f"BUILT_WITH = {built_with}\n{TORCH}", encoding="utf-8")
    code = f"from torch.distributed import TCPStore; print(TCPStore({given}).made)"
    assert said(torch, code) == f"('h', 7, True, {built_with})"


def test_whoever_looks_at_the_parameters_sees_those_of_torch(torch: Path) -> None:
    torch.write_text(f"BUILT_WITH = False\n{TORCH}", encoding="utf-8")
    code = "from torch import distributed as d; print(d.TCPStore.__init__.__doc__)"
    assert said(torch, code) == "With use_libuv: bool = True."


def test_another_error_is_raised_as_it_is_and_alone(torch: Path) -> None:
    torch.write_text(f"BUILT_WITH = False\n{TORCH}", encoding="utf-8")
    text = said(torch, "from torch.distributed import TCPStore; TCPStore('h', 1)")
    assert text.endswith("RuntimeError: nobody answers")
    assert "libuv support" not in text  # as if torch had never been asked for it


def test_a_torch_that_has_no_such_store_is_left_alone(torch: Path) -> None:
    torch.write_text("", encoding="utf-8")
    assert said(torch, "import torch.distributed; print('imported')") == "imported"


def test_nothing_of_torch_is_imported_before_it_is_asked_for(torch: Path) -> None:
    torch.write_text(TORCH, encoding="utf-8")
    assert said(torch, "print('torch' in sys.modules, 'functools' in sys.modules)") == "False False"
    assert said(torch, "import torch; print('torch.distributed' in sys.modules)") == "False"
