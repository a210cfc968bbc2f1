"""What of YAML a scenario may be, and that nothing in it can hurt."""

# ruff: noqa: E501 - a case is read best as one line
from __future__ import annotations

import os
import resource
import time
from typing import TYPE_CHECKING

import pytest
from scenario_texts import BASE, assert_refused, changed, problems_of

from fedtest.errors import ExitCode, ScenarioError
from fedtest.scenario.load import load, loads
from fedtest.scenario.source import parse_leniently

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("§", ["not a scenario", "found nothing", "allowed a mapping"]),
        ("§# only a comment\n", ["not a scenario", "found nothing"]),
        ("---\n§", ["not a scenario", "found nothing"]),
        ("§- a\n- b\n", ["not a scenario", "found a list"]),
        ("§just text\n", ["not a scenario", 'found "just text"']),
        ("a: 1\n§---\nb: 2\n", ["a second document", "allowed one document"]),
        ("§%YAML 1.1\n---\na: 1\n", ["another version", "found 1.1", "allowed YAML 1.2"]),
        ("a:\n§\tb: 1\n", ["a tab where YAML wants spaces", "allowed spaces"]),
        ("a:§\tb\n", ["a tab"]),
        ("a: §\0\n", ["a character that YAML does not allow", "U+0000"]),
        ("a: x§\x07\n", ["a character that YAML does not allow", "U+0007"]),
        ("a: [1, 2§", ["not YAML", "expected ',' or ']'"]),
        ("a: b§: c\n", ["not YAML", "mapping values are not allowed"]),
        ("a: {b: $§{{ x.y }}}\n", ["not YAML", "a text with ${{ x.y }} is in quotes"]),
        ("a: [x $§{{ x }}, c]\n", ["in quotes"]),
        ("a: {b: echo §{{ x.y }}}\n", ["a template is written ${{ x.y }}"]),
        ("a: {{ x.y }} §more\n", ["a template is written ${{ x.y }}"]),
        ("a: 'x\n§", ["not YAML", "end of stream"]),
        ("a: §*x\n", ["an alias without an anchor", "*x"]),
        ("a: &x [§*x]\n", ["an alias of something that it is part of", "*x"]),
        ("a: &x {b: {c: §*x}}\n", ["an alias of something that it is part of"]),
        ('a§: "\\UFFFFFFFF"\n', ["not YAML after this point"]),
    ],
)  # fmt: skip
def test_text_that_is_no_scenario_is_refused_where_it_stops(
    text: str, fragments: list[str]
) -> None:
    assert_refused(text, "", *fragments)


def test_a_template_without_its_dollar_is_told_where_it_is_yaml_all_the_same() -> None:
    found = problems_of(changed('run: "true"', "run: {{ x.y }}"))
    (said,) = [problem for problem in found if problem.message == "a key is not a string"]
    assert said.hint == 'a template is written ${{ x.y }}, and "${{ x.y }}" within braces'


@pytest.mark.parametrize(
    ("old", "new", "path", "fragments"),
    [
        ("name: base\n", "name: base\n§name: again\n", "name",
         ["twice", "first in line 2, column 1", "allowed each key once"]),
        ("  c: {nics: {spare: eth0}}", "  c: {nics: {spare: eth0, §spare: eth1}}",
         "hosts.c.nics.spare", ["twice", "first in line 10, column 14"]),
        ("data: {mnist: /data}", "data: {mnist: /data, §1: /x}", "data",
         ["a key is not a string", "found 1", '"1" in quotes']),
        ("data: {mnist: /data}", "data: {mnist: /data, §true: /x}", "data",
         ["a key is not a string", "found true"]),
        ("data: {mnist: /data}", "data: {mnist: /data, §null: /x}", "data",
         ["a key is not a string", "found nothing (null)"]),
        ("data: {mnist: /data}", "data: {mnist: /data, ? §[x] : /x}", "data",
         ["a key is not a string", "found a list"]),
        ("  a: {nics", "  §<<: {}\n  a: {nics", "hosts", ["merge keys", "YAML 1.2"]),
        ("/data}", "§!!python/object/apply:os.system [x]}", "data.mnist", ["a tag", "python/object"]),
        ("name: base", "name: §!name base", "name", ["a tag that is not allowed", "!name"]),
        ("code: 0", "code: §!!int no", "checks[0].exit.code", ["a tag that is not allowed", "int"]),
        ('run: "true"', 'run: §"a\\0b"', "processes.trainer.run", ["no program", "U+0000"]),
        ('run: "true"', 'run: §"a\\ud800b"', "processes.trainer.run", ["no program", "U+D800"]),
    ],
)  # fmt: skip
def test_wrong_keys_and_tags_are_refused_at_their_place(
    old: str, new: str, path: str, fragments: list[str]
) -> None:
    text = changed(old, new)
    wanted = [problem for problem in problems_of(text.replace("§", "")) if problem.path == path]
    assert wanted
    before = text.partition("§")[0]
    assert wanted[0].line == before.count("\n") + 1
    assert wanted[0].column == len(before) - (before.rfind("\n") + 1) + 1
    for fragment in fragments:
        assert fragment in str(wanted[0])


def test_the_core_schema_of_yaml_1_2_and_nothing_else() -> None:
    source, problems = parse_leniently(
        "strings: [on, off, yes, no, y, 1_000, 0b1, 2024-01-01, '5', =, 12:30:45, 0o9]\n"
        "bools: [true, False, TRUE]\n"
        "nulls: [null, ~, NULL, Null]\nempty:\n"
        "ints: [10, 010, -3, +3, 0o17, 0x1F]\n"
        "floats: [1.5, -.5, 1e3, 2., .inf]\n"
        "tagged: [!!str 5, ! 5, !!int 5, !!float 5]\n",
        "s.yaml",
    )
    assert not problems
    data = source.data
    assert all(isinstance(item, str) for item in data["strings"])
    assert data["bools"] == [True, False, True]
    assert data["nulls"] == [None] * 4
    assert data["empty"] is None
    assert data["ints"] == [10, 10, -3, 3, 15, 31]
    assert data["floats"] == [1.5, -0.5, 1000.0, 2.0, float("inf")]
    assert data["tagged"] == ["5", "5", 5, 5.0]


def test_aliases_are_written_out() -> None:
    scenario = loads(
        changed(
            "  b: {nics: {mgmt: mgmt0, data: ib0}}", "  b: &b {nics: {mgmt: m, data: ib0}}\n  d: *b"
        )
    ).scenario
    assert scenario.hosts["d"] == scenario.hosts["b"]


def test_windows_line_ends_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load(file).scenario == loads(BASE).scenario


_NESTED = "nested too deeply"
_MANY = "too many values"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[" * 1_000_000, _NESTED, id="a megabyte of ["),
        pytest.param("{" * 1_000_000, _NESTED, id="a megabyte of {"),
        pytest.param("a: " + "[{a: " * 100_000, _NESTED, id="a megabyte of both"),
        pytest.param("- " * 500_000, _NESTED, id="nested lists in one line"),
        pytest.param("? " * 500_000, _NESTED, id="nested keys"),
        pytest.param("".join(" " * n + "a:\n" for n in range(1000)), _NESTED, id="nested blocks"),
        pytest.param(
            "a: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 100)),
            _NESTED,
            id="nested by aliases",
        ),
        pytest.param(
            "a: &a0 [x, x]\n"
            + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 31)),
            _MANY,
            id="a billion laughs",
        ),
        pytest.param(
            "a: &a0 {x: x}\n"
            + "".join(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}\n" for n in range(1, 31)),
            _MANY,
            id="a billion keys",
        ),
        pytest.param("a: &a [" + "x, " * 500 + "]\n" + "b: [" + "*a, " * 500 + "]\n", _MANY,
                     id="wide aliases"),
        pytest.param("a: [" + "1," * 400_000 + "]", _MANY, id="a long list"),
    ],
)  # fmt: skip
def test_bombs_are_refused_at_once(text: str, message: str) -> None:
    began = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    problems = problems_of(text)
    assert message in problems[0].message
    assert problems[0].allowed.startswith("at most")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
    assert time.process_time() - began < 10  # seconds


def test_a_file_over_a_megabyte_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(b"# " + b"x" * 10_000_000)
    assert_file_refused(file, "too large", "at most 1 MiB")


def test_invalid_utf_8_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(b"fedtest: 1\nname: \xc3\xa4\xff\n")
    problem = assert_file_refused(file, "not UTF-8", "0xff")
    assert problem.startswith(f"{file}:2:8: ")


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert_file_refused(tmp_path / "none.yaml", "No such file")
    assert_file_refused(tmp_path, "found a directory", "allowed a YAML file")
    assert_file_refused(tmp_path / "s.yaml" / "x", "No such file")
    assert_file_refused("a\0b", "null")
    os.mkfifo(tmp_path / "pipe")
    assert_file_refused(tmp_path / "pipe", "found a special file")  # and nobody waited


def assert_file_refused(file: Path | str, *fragments: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        load(file)
    assert caught.value.exit_code is ExitCode.USAGE
    assert len(caught.value.problems) == 1
    for fragment in fragments:
        assert fragment in str(caught.value)
    assert str(caught.value).startswith(str(file))
    return str(caught.value)
