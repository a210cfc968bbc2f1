"""Which commands can start warm, and what a shell would have made of them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtest.engine.netns.warm.command import Cold, PythonCommand, recognise
from fedtest.engine.netns.warm.environment import difference, relative_path
from warmth import PYTHON, environment

if TYPE_CHECKING:
    from pathlib import Path


def shell(text: str) -> PythonCommand | Cold:
    return recognise(["/bin/sh", "-c", text], environment(), "/")


@pytest.mark.parametrize(
    "text",
    [
        "python -m a.b --rank 1 --init tcp://10.0.0.1:23456",
        "exec python train.py",
        "python3 train.py 'a b' \"c 'd'\" e'f'\"g\" ''",
        "  python\t-u   train.py --x=1 -- @%+:,./-  \n",
        "A=1 B='x y' C= python -m m",
        "'python' -m m 'it is' A=1",
        "python -u -u -m m",
    ],
)
def test_plain_words_come_out_as_a_shell_gives_them(tmp_path: Path, text: str) -> None:
    found = shell(text)
    assert isinstance(found, PythonCommand)
    for name in ("python", "python3"):
        # It writes down its arguments and its environment.
        (tmp_path / name).write_text(
            '#!/bin/sh\nprintf \'%s\\0\' "$@" > args; printf \'%s\\0\' "$A" "$B" > env\n'
        )
        (tmp_path / name).chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["/bin/sh", "-c", text], cwd=tmp_path, env=path, check=True)
    assert (tmp_path / "args").read_text().split("\0")[:-1] == list(found.argv[1:])
    wanted = [found.env.get("A", ""), found.env.get("B", "")]
    assert (tmp_path / "env").read_text().split("\0")[:-1] == wanted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (text, "the shell has more to do")
        for text in (
            "python a.py && python b.py",
            "python a.py > log",
            "python a.py | tee x",
            "python $FILE",
            'python "$FILE"',
            "python `which x`",
            "python a.py *",
            "python ~/a.py",
            "python a.py &",
            "python a.py\npython b.py",
            "python a.py # quietly",
            "python a\\ b.py",
            "python a.py 'unclosed",
            "(python a.py)",
            "! python a.py",
            "python {a,b}.py",
        )
    ]
    + [
        ("echo python a.py", "no Python interpreter"),
        ("", "no Python interpreter"),
        ("A=1", "no Python interpreter"),
        ("env A=1 python a.py", "no Python interpreter"),
        ("pythonw a.py", "no Python interpreter"),
        ("A=1 exec python a.py", "before `exec`"),
        ("PATH=/bin python a.py", "sets PATH"),
        ("python", "standard input"),
        ("python -u", "standard input"),
        ("python - a", "standard input"),
        ("python -c 'print(1)'", "in the command"),
        ("python -m", "option -m"),
        ("python -X dev a.py", "option -X"),
        ("python -O a.py", "option -O"),
        ("python -I -m m", "option -I"),
        ("python -um m", "option -um"),
        ("python -mm", "option -mm"),
        ("python3.99 a.py", "no python3.99 in PATH"),
    ],
)
def test_everything_else_starts_cold_and_says_why(text: str, reason: str) -> None:
    found = shell(text)
    assert isinstance(found, Cold)
    assert reason in found.reason


@given(st.lists(st.text("ab '\"$\\`;&|<>(){}*?[]#~!=%\t\n", max_size=5), max_size=4))
def test_a_shell_never_sees_what_we_take_for_words_otherwise(words: list[str]) -> None:
    text = " ".join(words)
    found = shell(f"python x.py {text}")
    if isinstance(found, PythonCommand):
        told = subprocess.run(
            ["/bin/sh", "-c", f"printf '%s\\0' x.py {text}"], capture_output=True, check=True
        )
        assert told.stdout.decode().split("\0")[:-1] == list(found.argv[1:])


def test_what_it_is_made_of() -> None:
    found = shell("A=1 python -u -m pkg.mod -u x")
    assert isinstance(found, PythonCommand)
    assert found.interpreter == str(PYTHON)
    assert (found.module, found.file, found.args) == ("pkg.mod", None, ("-u", "x"))
    assert found.unbuffered
    assert found.env == environment(A="1")
    assert found.shell
    listed = recognise(["bin/python3", "a.py", "-u"], environment(), "/opt")
    assert isinstance(listed, PythonCommand)
    assert (listed.interpreter, listed.file) == ("/opt/bin/python3", "a.py")
    assert not listed.unbuffered
    assert not listed.shell
    assert isinstance(recognise(["python", "a.py"], {}, "/"), Cold)


@pytest.mark.parametrize(
    ("mine", "theirs", "reason"),
    [
        ({}, {"RANK": "1"}, ""),
        ({"PWD": "/a", "PYTHONUNBUFFERED": "1"}, {"PWD": "/b", "_": "x"}, ""),
        ({}, {"PYTHONHASHSEED": ""}, ""),
        ({}, {"PYTHONHASHSEED": "0"}, "PYTHONHASHSEED"),
        ({"PYTHONPATH": "/a"}, {"PYTHONPATH": "/b"}, "PYTHONPATH"),
        ({"OMP_NUM_THREADS": "2"}, {"OMP_NUM_THREADS": "1"}, "is '1', not '2'"),
        ({"OMP_NUM_THREADS": "2"}, {}, "is unset, not '2'"),
        ({}, {"LD_PRELOAD": "x" * 100}, "xxx..."),
        ({"LANG": "C"}, {"LANG": "C.UTF-8"}, "LANG"),
        ({"NOTED": "1"}, {"NOTED": "2"}, "NOTED"),
    ],
)
def test_variables_that_act_before_the_program_must_be_equal(
    mine: dict[str, str], theirs: dict[str, str], reason: str
) -> None:
    found = difference(mine, theirs, {"NOTED"})
    assert bool(found) is bool(reason)
    assert reason in found


def test_a_path_may_depend_on_the_working_directory() -> None:
    assert relative_path({"PYTHONPATH": "/a:b"}) == "b"
    assert relative_path({"PYTHONPATH": "/a:"}) == "''"
    assert relative_path({"PYTHONPATH": "/a:/b"}) == ""
    assert relative_path({}) == ""
