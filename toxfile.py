"""tox reads this when it starts: before it makes anything, the machine has what is needed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tox.plugin import impl

if TYPE_CHECKING:
    from tox.config.sets import ConfigSet
    from tox.session.state import State

COMMANDS = {"legacy", "le", "run", "r", "run-parallel", "p"}
ONLY_LOOKS = ("list_envs", "list_envs_all", "show_config")
PREFLIGHT = Path(__file__).parent / "tests" / "preflight.py"


@impl
def tox_add_core_config(core_conf: ConfigSet, state: State) -> None:
    """Leave with preflight's status if the chosen environments cannot run here."""
    options = state.conf.options
    if options.command not in COMMANDS or "TOX_PARALLEL_ENV" in os.environ:
        return
    if any(getattr(options, name, False) for name in ONLY_LOOKS):
        return
    if names := chosen(core_conf, state):
        command = [sys.executable, str(PREFLIGHT), *names]
        if status := subprocess.run(command, check=False).returncode:
            raise SystemExit(status)


def chosen(core_conf: ConfigSet, state: State) -> list[str]:
    """Return the names of the environments that will run."""
    options = state.conf.options
    names = list(core_conf["env_list"].envs)
    if options.env is not None and not options.env.is_default_list:
        names = list(state.conf) if options.env.is_all else list(options.env)
    skipped = re.compile(options.skip_env) if options.skip_env else None
    return [name for name in names if skipped is None or not skipped.match(name)]
