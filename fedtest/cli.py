"""The command line. Imports nothing heavy until a command needs it.

Every command exits with one of `errors.ExitCode`, and a user's mistake is a
message, never a traceback.
"""

from __future__ import annotations

import argparse
import errno
import gc
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest import __version__, cli_machine
from fedtest.cli_tell import complain, give_up
from fedtest.errors import (
    ExitCode,
    FedtestError,
    Interrupted,
    InvalidError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from fedtest.run.observer import Observer

_SELDOM = 50_000
"""New objects, after which garbage is looked for: most of what a command makes lives as long."""
_UNWRITABLE = {errno.EPIPE, errno.EIO, errno.ENOSPC}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    gc.set_threshold(_SELDOM, *gc.get_threshold()[1:])
    if sys.stdout is None:  # Who started us has closed it.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for good
    heard: list[signal.Signals] = []
    try:
        with _interruptible(heard):
            arguments = _parser().parse_args(argv)
            code = int(arguments.command(arguments))
            sys.stdout.flush()
    except SystemExit:  # argparse has said all
        if not heard:
            raise
        code = _interrupted(heard)
    except BaseException as error:  # noqa: BLE001 - the last place where it can be told
        code = _interrupted(heard) if heard else _unexpected(error)
    return code


def _interrupted(heard: list[signal.Signals]) -> int:
    """Whatever it was on its way here: within an import a library makes something else of it."""
    complain(Interrupted(f"interrupted by {heard[0].name}"))
    return ExitCode.INTERRUPTED


def _unexpected(error: BaseException) -> int:
    if isinstance(error, FedtestError):
        complain(error)
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        complain(Interrupted("interrupted"))
        return ExitCode.INTERRUPTED
    if isinstance(error, OSError) and error.errno in _UNWRITABLE:
        return _unwritten(error)
    return _defect(error)


def _unwritten(error: OSError) -> int:
    """Who read our output has gone, which is no defect; or the disk it went to is full."""
    give_up(sys.stdout)
    if error.errno != errno.ENOSPC:
        return ExitCode.INTERRUPTED
    complain(InvalidError(f"the output could not be written: {error.strerror}"))
    return ExitCode.INVALID


@contextmanager
def _interruptible(heard: list[signal.Signals]) -> Iterator[None]:
    """A signal that ends us is told like every other end, also before a run handles it."""

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        heard.append(signal.Signals(number))
        raise KeyboardInterrupt

    old = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}:
                old[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _defect(error: BaseException) -> int:
    import traceback

    with suppress(OSError):
        traceback.print_exc()
    complain(
        FedtestError(
            f"fedtest's own error: {type(error).__name__}: {error}",
            remedy="This is a defect of fedtest; please report it with the traceback above.",
        )
    )
    return ExitCode.INTERNAL


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fedtest",
        description="A containerized multi-host testbed for torch.distributed over Gloo.",
        epilog="Exit codes: 0 passed, 1 failed, 2 usage, 3 invalid, 4 fedtest's own error, "
        "130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"fedtest {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run a scenario and report its verdict")
    run.set_defaults(command=_run)
    run.add_argument("file", metavar="FILE")
    run.add_argument("--dry-run", action="store_true", help="print the plan, touch no engine")
    run.add_argument("--runs", type=Path, default=Path("runs"), metavar="DIR",
                     help="where the run's directory is made (default: %(default)s)")  # fmt: skip
    run.add_argument("--junit", type=Path, metavar="FILE",
                     help="write JUnit XML there, besides the run's directory")  # fmt: skip
    _engine_option(run, "what provides the hosts")
    run.add_argument("--python", metavar="PATH",
                     help="what hosts without Docker run, and no Docker (default: "
                     "$FEDTEST_PYTHON, or what fedtest provides)")  # fmt: skip
    run.add_argument("--cold", action="store_true",
                     help="start every Python process anew, whatever `preload` says")  # fmt: skip
    looks = run.add_mutually_exclusive_group()
    looks.add_argument("--quiet", action="store_true", help="print what did not hold, and the end")
    looks.add_argument("--verbose", action="store_true",
                       help="print every line of every process, as it comes")  # fmt: skip
    looks.add_argument("--json", action="store_true", help="print the result as JSON")

    validate = commands.add_parser("validate", help="check scenario files")
    validate.set_defaults(command=_validate)
    validate.add_argument("files", nargs="+", metavar="FILE")

    engine = commands.add_parser("engine", help="tell what engine there is")
    engine.set_defaults(command=cli_machine.engine)
    _engine_option(engine, "which to tell of")
    actions = engine.add_subparsers(metavar="ACTION")
    ensure = actions.add_parser("ensure", help="have what runs need: an engine that answers, tools")
    ensure.set_defaults(command=cli_machine.engine_ensure)
    ensure.add_argument("--engine", choices=["auto", "docker", "netns"], default=argparse.SUPPRESS,
                        help="docker: an installed engine is started; netns: the tools of hosts "
                        "without Docker; auto: both (default)")  # fmt: skip
    ensure.add_argument("--install", action="store_true",
                        help="install what is missing (as root on Debian or Ubuntu)")  # fmt: skip

    data = commands.add_parser("data", help="fetch a data set into the cache")
    data.set_defaults(command=cli_machine.data)
    data.add_argument("name", choices=["mnist"])
    data.add_argument("--volume", action="store_true",
                      help="also into the engine's volume, whose name is printed")  # fmt: skip

    image = commands.add_parser("image", help="have what hosts are made from; print its name",
                                description="Builds the node image if need be and prints its "
                                "name; with --engine netns has an environment with torch made, "
                                "and prints its interpreter's path.")  # fmt: skip
    image.set_defaults(command=cli_machine.image)
    image.add_argument("--engine", choices=["docker", "netns"], default="docker",
                       help="whose hosts (default: %(default)s)")  # fmt: skip
    image.add_argument("--requirements", type=Path, metavar="FILE",
                       help="with --engine netns: what else is to be installed")  # fmt: skip

    clean = commands.add_parser("clean", help="remove what dead runs left")
    clean.set_defaults(command=cli_machine.clean)
    _engine_option(clean, "where to look; auto: on both")
    clean.add_argument("--images", action="store_true",
                       help="also remove superseded node images, and the environments with torch "
                       "that were made for hosts without Docker")  # fmt: skip
    clean.add_argument("runs", nargs="*", metavar="RUN",
                       help="also remove these runs, whatever their state")  # fmt: skip
    return parser


def _engine_option(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--engine", choices=["auto", "docker", "netns"], default="auto",
                        help=f"{what}; auto: Docker where it answers, and else network "
                        "namespaces (default)" if "auto" not in what else what)  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    from fedtest.bundle import scenario_file
    from fedtest.scenario.load import load

    scenario = load(scenario_file(arguments.file)).scenario
    if arguments.dry_run:
        from fedtest.plan import make_plan
        from fedtest.plan_text import with_examples
        from fedtest.run.artifacts import to_json
        from fedtest.subnets import choose

        plan = make_plan(scenario, choose(scenario, "", ()))
        sys.stdout.write(to_json(with_examples(plan)))
        return ExitCode.PASSED

    from fedtest.engine.choose import open_engine
    from fedtest.errors import UsageError
    from fedtest.local_files import is_directory
    from fedtest.reporters.junit import write_junit
    from fedtest.run.runner import Runner

    junit: Path | None = arguments.junit
    # Better now than afterwards.
    if junit is not None and not is_directory(junit.absolute().parent):
        raise UsageError(f"cannot write {junit}: there is no directory {junit.parent}")
    if junit is not None and is_directory(junit):
        raise UsageError(f"cannot write {junit}: it is a directory")
    chosen, warm, python = _engine_for(arguments), not arguments.cold, arguments.python
    reporter = _reporter(arguments)
    runner = Runner(
        scenario,
        lambda: open_engine(chosen, warm=warm, python=python),
        reporter,
        arguments.runs,
    )
    result = runner.run()
    write_junit(result, [Path(result.directory) / "junit.xml", *([junit] if junit else [])])
    return result.exit_code


def _engine_for(arguments: argparse.Namespace) -> str:
    """Who names a Python for hosts wants those that can have it."""
    from fedtest.errors import UsageError

    if arguments.python is None:
        return str(arguments.engine)
    if arguments.engine == "docker":
        raise UsageError(
            "--python is for hosts without Docker",
            remedy="With --engine docker hosts run their image's: `image:` or `build:` says which.",
        )
    return "netns"


def _reporter(arguments: argparse.Namespace) -> Observer:
    if arguments.json:
        from fedtest.reporters.json import JsonReporter

        return JsonReporter(sys.stdout)
    if arguments.quiet or arguments.verbose or not sys.stdout.isatty():
        from fedtest.reporters.folds import folds
        from fedtest.reporters.plain import PlainReporter, QuietReporter

        if arguments.quiet:
            return QuietReporter(sys.stdout, folds=folds(os.environ))
        return PlainReporter(sys.stdout, verbose=arguments.verbose, folds=folds(os.environ))

    from fedtest.reporters.terminal import TerminalReporter

    return TerminalReporter()


def _validate(arguments: argparse.Namespace) -> int:
    from fedtest.bundle import scenario_file
    from fedtest.errors import UsageError
    from fedtest.scenario.load import load

    code = ExitCode.PASSED
    for file in arguments.files:
        try:
            scenario = load(scenario_file(file)).scenario
        except UsageError as error:
            code = ExitCode.USAGE
            complain(error)
        else:
            print(f"{file}: scenario {scenario.name} is valid")
    return code
