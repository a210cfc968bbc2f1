"""Have torch's TCPStore do without libuv where torch was built without it.

Debian's torch is, and most of torch asks for libuv all the same: only
`init_process_group` reads USE_LIBUV, torchrun's stores and a store made by hand
do not. Each ends with "use_libuv was requested but PyTorch was build without
libuv support". With this module a store of such a build is made without libuv,
whoever makes it; the two kinds understand each other. A build with libuv never
raises this error, so it keeps what was asked for.

Every Python process of the image imports this (fedtest_tcpstore.pth), so it
imports nothing itself, and torch least of all: it waits for torch.distributed.
"""

# ruff: noqa: INP001 - a module by itself
import sys

_LACKING = "without libuv support"
_BEFORE = 8  # parameters of TCPStore that come before `use_libuv`


class _Watch:
    """Finds torch.distributed as others find it, and repairs it once it is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch.distributed":
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                _repair_after(spec.loader)
                return spec
        return None


def _repair_after(loader):
    execute = loader.exec_module

    def exec_module(module):
        execute(module)
        if hasattr(module, "TCPStore"):
            _repair(module.TCPStore)

    loader.exec_module = exec_module


def _repair(store):
    """Have stores of this class made without libuv if torch says that it has none."""
    from functools import wraps  # noqa: PLC0415 - torch has imported it

    initialise = store.__init__

    @wraps(initialise)  # its text tells which parameters there are
    def init(self, *arguments, **options):
        try:
            return initialise(self, *arguments, **options)
        except RuntimeError as error:
            if _LACKING not in str(error):
                raise
        options["use_libuv"] = False
        return initialise(self, *arguments[:_BEFORE], **options)

    store.__init__ = init


sys.meta_path.insert(0, _Watch())
