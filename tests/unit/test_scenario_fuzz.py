"""Any text gives a scenario or a ScenarioError; a scenario survives being written."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scenario_texts import BASE, GIVEN, NETS

from fedtest.errors import ScenarioError
from fedtest.plan import make_plan
from fedtest.scenario.load import Loaded, dump, loads
from fedtest.scenario.model import Scenario
from fedtest.subnets import choose

SCENARIOS = Path(__file__).parents[2] / "scenarios"
QUICK = settings(
    max_examples=200,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def load_or_refuse(text: str) -> None:
    try:
        loaded = loads(text)
    except ScenarioError as refusal:
        problems = refusal.problems
    else:
        assert isinstance(loaded, Loaded)
        make_plan(loaded.scenario, choose(loaded.scenario, "run", ()))
        return
    assert problems
    for problem in problems:
        assert str(problem)
        assert 0 <= problem.line <= text.count("\n") + 1
        assert problem.column >= 0


# What YAML is made of, so that random texts get beyond the first character.
PIECES = st.one_of(
    st.sampled_from(":-?,[]{}&*!|>'\"%@`#~.$=a \n\t\\\0\x85"),
    st.sampled_from(["${{", "}}", "<<", "---", "...", "\n  ", "\n- ", ": ", "b: c", "&a", "*a"]),
)


@QUICK
@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
def test_any_text(text: str) -> None:
    load_or_refuse(text)


@cache
def shipped(name: str) -> str:
    return (SCENARIOS / f"{name}.yaml").read_text()


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A scenario with a few pieces cut, doubled, exchanged or made of something else."""
    texts = [BASE, GIVEN, NETS, shipped("ring"), shipped("slow-link")]
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        other = draw(st.integers(0, len(text)))
        piece = draw(
            st.one_of(
                PIECES,
                st.text(max_size=5),
                st.just(""),
                st.just(text[start:end] * 2),
                st.just(text[other : other + 30]),
                st.sampled_from(["null", "[]", "{}", "5", "true", "-1", "1e999", ".nan", '"']),
            )
        )
        text = text[:start] + piece + text[end:]
    return text


@QUICK
@given(mutated())
def test_mutated_scenarios(text: str) -> None:
    load_or_refuse(text)


@st.composite
def mistyped(draw: st.DrawFn) -> str:
    """Values of the wrong type: lines stay whole, so that the model is reached."""
    lines = draw(st.sampled_from([BASE, GIVEN])).splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        key, colon, _ = lines[at].partition(": ")
        value = draw(
            st.sampled_from(["5", "x", "null", "true", "[a]", "{a: b}", "[{}]", "[[]]", '""'])
        )
        lines[at] = f"{key}{colon or ' '}{value}"
    return "\n".join(lines)


@QUICK
@given(mistyped())
def test_mistyped_scenarios(text: str) -> None:
    load_or_refuse(text)


NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,6}[a-z0-9]", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30).map(
    lambda text: text.replace("${{", "")
)
FLOATS = st.floats(0, allow_nan=False, allow_infinity=False)
INTERFACES = st.from_regex(r"[a-z0-9@_]{1,15}", fullmatch=True).filter(
    lambda name: name not in ("lo", "all", "default")
)


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Plain data of a valid scenario."""
    networks = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    hosts = [f"h-{name}" for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))]
    members = draw(st.lists(st.sampled_from(hosts), min_size=1, unique=True))
    command = st.one_of(TEXTS.filter(str.strip), st.lists(TEXTS, min_size=1, max_size=3))
    moment = {"host": members[0], "value": draw(TEXTS.filter(bool))}
    data: dict[str, Any] = {
        "fedtest": 1,
        "name": draw(NAMES),
        "description": draw(TEXTS),
        "seed": draw(st.integers(0, 2**63 - 1)),
        "deadline": f"{draw(st.integers(1, 5000))}ms",
        "networks": {
            name: {"internal": draw(st.booleans())}
            | ({"subnet": f"10.{at}.0.0/16"} if draw(st.booleans()) else {})
            for at, name in enumerate(networks)
        },
        "hosts": {
            host: {
                "nics": dict(
                    zip(
                        networks,
                        draw(st.lists(INTERFACES, min_size=3, max_size=3, unique=True)),
                        strict=False,
                    )
                )
            }
            for host in hosts
        },
        "groups": {"g_roup": {"members": members, "network": draw(st.sampled_from(networks))}},
        "processes": {
            "p": {
                "hosts": draw(st.sampled_from(["g_roup", hosts])),
                "run": draw(command),
                "env": draw(st.dictionaries(st.from_regex(r"[A-Z_]{1,5}", fullmatch=True), TEXTS)),
            }
        },
        "checks": [
            {"exit": {"process": "p", "code": draw(st.integers(0, 255))}},
            {"value": {"process": "p", "name": draw(TEXTS.filter(bool)), "each": "!= no"}},
            {"bytes": {"group": "g_roup", "network": networks[0], "direction": "rx",
                       "max": f"{draw(st.integers(0, 10**9))}B"},
             "eventually": f"{draw(st.integers(1, 5000))}ms"},
            {"log": {"process": "p", "absent": draw(TEXTS.filter(bool)), "since": moment}},
            {"log": {"process": "p", "match": "(?P<n>.)", "count": draw(st.integers(0, 99)),
                     "where": {"n": draw(st.sampled_from(["== 1", "> -1.5", '!= "\\t"']))}}},
            {"value": {"process": "p", "name": "n", "across": {"within": draw(FLOATS)}},
             "always": True},
            {"packets": {"host": hosts[0], "network": networks[0], "direction": "tx",
                         "min": draw(st.integers(0, 10**15))}},
            {"time": {"from": moment, "to": {"process": "p", "state": "exited"}, "within": "1s"}},
            {"files": {"group": "g_roup", "path": f"/{draw(st.text('a-. ', max_size=9))}x"}},
            {"reach": {"from": hosts[0], "to": hosts[-1], "port": 80, "timeout": "2ms"}},
        ],
    }  # fmt: skip
    if draw(st.booleans()):
        data["data"] = {"mnist": "/data"}
    return data


@QUICK
@given(scenarios())
def test_a_scenario_written_and_read_again_is_the_same(data: dict[str, Any]) -> None:
    scenario = Scenario.model_validate(data)
    text = dump(scenario)
    again = loads(text).scenario
    assert again == scenario
    for section in ("networks", "hosts", "processes"):
        assert list(getattr(again, section)) == list(getattr(scenario, section))
    assert [list(host.nics) for host in again.hosts.values()] == [
        list(host.nics) for host in scenario.hosts.values()
    ]
    assert dump(again) == text
