"""Values of secrets: where they come from, and that they are in nothing a run leaves."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtest.engine.base import Engine
from fedtest.engine.fake import Defects, FakeEngine
from fedtest.errors import EngineError, FedtestError, UsageError
from fedtest.probe import stacks as probe
from fedtest.run import secrets
from fedtest.run.concealing import Concealing
from fedtest.run.result import Verdict
from fedtest.run.secrets import MASK, Secrets
from fedtest.scenario.load import loads
from fedtest.scenario.template import fill_secrets
from runs import Awaited, Lab

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = 'to"ken ä\\1'
SCENARIO = """
fedtest: 1
name: small
networks: {net: {}}
secrets: {TOKEN: {env: FEDTEST_TRY}}
hosts: {a: {nics: {net: eth0}, env: {TOKEN: "${{ secrets.TOKEN }}"}}}
processes: {work: {hosts: [a], run: %s, user: "1000"}}
checks: [%s]
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("FEDTEST_TRY", TOKEN)
    return Lab(tmp_path / "runs")


def read(given: str, base: Path, **environ: str) -> Secrets:
    text = (SCENARIO % ('"true"', "")).replace("{TOKEN: {env: FEDTEST_TRY}}", given)
    return Secrets.read(loads(text, base=base).scenario, environ)


def test_values_come_from_where_the_scenario_says(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("of a file\n", encoding="utf-8")
    secrets = read("{TOKEN: {env: A}, key: {file: key}}", tmp_path, A="of the environment")
    assert secrets.mask("x of a file, of the environment.") == "x ***, ***."


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "there is no file"),
        (b"\xff\xff\xff\xff", "is not UTF-8"),
        (b"abc\n", "has not 4 to 16384 characters"),
        (b"    \n", "has not 4 to"),
        (b"x" * 20_000, "has not 4 to"),
        (b"ab\0cdef", "characters that no program"),
    ],
)
def test_what_is_no_secret_is_told_by_name(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read("{TOKEN: {env: NOSUCH}, key: {file: key}}", tmp_path)
    assert "secret TOKEN: the environment has no variable NOSUCH" in caught.value.message
    assert "secret key: " in caught.value.message
    assert said in caught.value.message
    assert "abc" not in caught.value.message


def test_one_that_is_missing_stops_a_run_before_it_has_a_directory(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDTEST_TRY")
    with pytest.raises(UsageError):
        lab.run(SCENARIO % ('"true"', ""))
    assert not lab.runs.exists()


def test_filling_in_is_done_once() -> None:
    values = {"A": "${{ secrets.B }}", "B": "b"}
    text = "${{ secrets.A }} ${{ secrets.B }} ${{ secrets.C }}"
    assert fill_secrets(text, values) == "${{ secrets.B }} b ${{ secrets.C }}"


def everything(lab: Lab, path: Path) -> str:
    files = [item.read_text(encoding="utf-8") for item in path.rglob("*") if item.is_file()]
    return "\n".join([*files, *lab.recorder.told])


def forms() -> list[str]:
    return [
        TOKEN,
        json.dumps(TOKEN)[1:-1],
        json.dumps(TOKEN, ensure_ascii=False)[1:-1],
        repr(TOKEN),
    ]


TELL = """
import json, os, sys
token = os.environ["TOKEN"]
print("one", token, repr(token), json.dumps(token))
print(token, file=sys.stderr)
print("fedtest-value " + json.dumps({"name": "x", "value": token}))
print("fedtest-value " + json.dumps({"name": "x", "value": token}, ensure_ascii=False))
print("fedtest-value {", token)
print(len(token), "characters", flush=True)
raise ValueError(token)
"""


def test_no_artifact_has_it_and_the_process_has(lab: Lab) -> None:
    checks = "{log: {process: work, match: nosuch}}, {value: {process: work, name: x, each: == 1}}"
    run = json.dumps([sys.executable, "-c", TELL, "${{ secrets.TOKEN }}"])
    done = lab.run(SCENARIO % (run, checks))
    assert done.result.verdict is Verdict.FAILED
    found = everything(lab, done.path)
    assert not [form for form in forms() if form in found]
    assert f"{len(TOKEN)} characters" in done.text("logs/a.work.log")
    assert f"ValueError: {MASK}" in found
    assert "${{ secrets.TOKEN }}" in done.text("plan.json")
    told = f"{done.result}"
    assert not [form for form in (*forms(), repr(repr(TOKEN))[2:-2]) if form in told]
    assert done.result.processes[0].values == {"x": MASK}


def test_what_is_saved_of_a_process_that_hangs_has_nothing_of_it(lab: Lab) -> None:
    """Its command is shown up to some length, which is in the middle of the value."""
    hangs = "import time; print('hangs', flush=True); time.sleep(600)"
    length = probe.COMMAND - len(f"{sys.executable} -c {hangs} ") - 4
    words = [sys.executable, "-c", hangs, "x" * length + "${{ secrets.TOKEN }}"]
    done = lab.run(
        SCENARIO % (f"{json.dumps(words)}, deadline: 100ms", ""), Awaited({"work": "hangs"})
    )
    assert done.result.verdict is Verdict.FAILED
    stacks = done.text("hosts/a.stacks.txt")
    assert hangs in stacks
    assert "(<string>:1)" in stacks
    found = everything(lab, done.path)
    assert not [form for form in (*forms(), TOKEN[:4]) if form in found]


def test_both_sides_know_how_a_command_is_cut() -> None:
    assert (secrets.COMMAND, secrets.CUT) == (probe.COMMAND, probe.CUT)


def test_of_what_a_shell_has_split_no_word_is_shown_where_a_command_is_cut(lab: Lab) -> None:
    hangs = "import time; print('hangs', flush=True); time.sleep(600)"
    first, *_ = TOKEN.split()
    # Room for the first word, and none for the second.
    length = probe.COMMAND - len(f"{sys.executable} -c {hangs}  {first} ") - 2
    run = f'exec {sys.executable} -c "{hangs}" {"x" * length} $TOKEN'
    done = lab.run(
        SCENARIO % (f"{json.dumps(run)}, deadline: 100ms", ""), Awaited({"work": "hangs"})
    )
    assert done.result.verdict is Verdict.FAILED
    assert f"x {MASK} ...\n" in done.text("hosts/a.stacks.txt")
    assert first not in everything(lab, done.path)


def test_words_between_which_a_shell_has_left_one_blank_are_the_secret() -> None:
    secrets = Secrets({"A": "the  secret\tvalue"})
    assert secrets.mask("x the secret value y") == f"x {MASK} y"
    assert secrets.mask_commands("run the secret ...\nthe secret of it") == (
        f"run {MASK} ...\nthe secret of it"
    )


def test_no_error_has_it_whoever_raises_it(lab: Lab) -> None:
    for defect in (EngineError(f"no {TOKEN}", remedy=f"not {TOKEN}"), RuntimeError(f"no {TOKEN}")):
        done = lab.run(SCENARIO % ('"true"', ""), FakeEngine(Defects(realise=defect)))
        assert done.result.verdict is Verdict.INVALID
        assert f"no {MASK}" in done.messages[0]
        assert not [form for form in forms() if form in everything(lab, done.path)]


def test_every_verb_of_an_engine_is_handed_on() -> None:
    """A verb that were not would be missed only by scenarios with secrets."""
    assert not Concealing.__abstractmethods__
    engine = Concealing(FakeEngine(), Secrets({"A": "secret value"}))
    assert isinstance(engine, Engine)
    assert engine.info().kind == "fake"
    assert engine.sweep(1) == {}
    assert engine.destroy("nosuch", 1) == 0
    engine.close()


def test_an_error_keeps_its_type_and_its_code() -> None:
    class Failing(FakeEngine):
        def destroy(self, run_id: str, deadline: float) -> int:
            raise EngineError("the secret value is wrong")

    engine = Concealing(Failing(), Secrets({"A": "secret value"}))
    with pytest.raises(EngineError, match=r"the \*\*\* is wrong") as caught:
        engine.destroy("x", 1)
    assert isinstance(caught.value, FedtestError)
    assert "secret value" not in str(caught.value)


def test_several_lines_are_masked_line_by_line_too() -> None:
    secrets = Secrets({"A": "first line\nsecond line\n}\n"})
    assert secrets.mask("x first line\ny second line }") == "x ***\ny *** }"
    assert secrets.mask("first line\nsecond line\n}\n") == "***"


def test_the_longer_of_two_is_masked_whole() -> None:
    secrets = Secrets({"A": "abcdef", "B": "abcdefgh"})
    assert secrets.mask("abcdefgh abcdef") == "*** ***"
    stream = secrets.stream()
    assert stream.feed(b"x abcdef") == b"x "
    assert stream.feed(b"gh y") == b"*** y"
    assert stream.rest() == b""


PIECES = st.lists(st.binary() | st.text("ab ").map(str.encode))
VALUES = st.text("ab ", min_size=4, max_size=8).filter(lambda text: len(text.strip()) >= 4)


@settings(max_examples=500, deadline=None, database=None)
@given(
    st.lists(VALUES, min_size=1, max_size=3), st.lists(st.binary() | st.text("ab ").map(str.encode))
)
def test_however_output_is_cut_it_is_masked_as_a_whole(
    values: list[str], pieces: list[bytes]
) -> None:
    secrets = Secrets({str(at): value for at, value in enumerate(values)})
    stream = secrets.stream()
    got = b"".join([*map(stream.feed, pieces), stream.rest()])
    assert got == secrets.mask_bytes(b"".join(pieces))
    assert not [value for value in values if value.encode() in got]


def test_a_whole_line_is_handed_on_at_once() -> None:
    stream = Secrets({"A": "secret value"}).stream()
    assert stream.feed(b"all is well\n") == b"all is well\n"
    assert stream.feed(b"and s") == b"and "
