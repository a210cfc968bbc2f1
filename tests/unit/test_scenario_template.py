"""`${{ path }}`: what it becomes on each host, and where it is refused."""

from __future__ import annotations

import pytest
from scenario_texts import BASE, assert_refused, changed, problems_of

from fedtest.plan import Plan, make_plan
from fedtest.scenario.load import loads
from fedtest.scenario.template import expand_check
from fedtest.subnets import choose


def planned(text: str) -> Plan:
    scenario = loads(text).scenario
    return make_plan(scenario, choose(scenario, "run", ()))


def commands(run: str) -> dict[str, str]:
    """What the trainer's shell is given on each host."""
    plan = planned(changed('run: "true"', f"run: '{run}'"))
    return {item.host: item.argv[2] for item in plan.processes if item.name == "trainer"}


@pytest.mark.parametrize(
    ("template", "on_a", "on_b"),
    [
        ("ring.master", "192.168.0.1", "192.168.0.1"),
        ("ring.port", "23456", "23456"),
        ("ring.size", "2", "2"),
        ("ring.rank", "0", "1"),
        ("nics.data.name", "eth0", "ib0"),
        ("nics.data.ip", "192.168.0.1", "192.168.0.2"),
        ("host.name", "a", "b"),
        ("hosts.b.nics.data.name", "ib0", "ib0"),
        ("hosts.b.nics.data.ip", "192.168.0.2", "192.168.0.2"),
        ("data.mnist", "/data", "/data"),
        ("seed", "0", "0"),
    ],
)
def test_what_each_path_gives(template: str, on_a: str, on_b: str) -> None:
    assert commands(f"x ${{{{ {template} }}}} y") == {"a": f"x {on_a} y", "b": f"x {on_b} y"}


@pytest.mark.parametrize(
    ("run", "on_a"),
    [
        ("'$HOME ${X} $(id) $$ ${{ring.rank}}'", "$HOME ${X} $(id) $$ 0"),
        ('"${{ring.rank}}${{ ring.rank }}"', "00"),
        ("'a }} b'", "a }} b"),
        ("'${ { ring.rank }}'", "${ { ring.rank }}"),
        (">-\n      a\n      ${{\n      ring.rank }}\n      b", "a 0 b"),
        ("|\n      a\n      ${{ ring.rank }}", "a\n0\n"),
        ('"\\x24{{ ring.rank }}"', "0"),
    ],
)
def test_only_templates_are_touched(run: str, on_a: str) -> None:
    plan = planned(
        changed(
            '  trainer: {hosts: ring, run: "true"}', f"  trainer:\n    hosts: ring\n    run: {run}"
        )
    )
    assert plan.processes[0].argv == ("/bin/sh", "-c", on_a)


def test_lists_and_environment_have_templates_too() -> None:
    plan = planned(
        changed(
            'run: "true"',
            'run: [echo, "${{ ring.rank }}", $HOME], env: {IF: "${{ nics.data.name }}"}',
        )
    )
    assert plan.processes[1].argv == ("echo", "1", "$HOME")
    assert plan.processes[1].env == (("IF", "ib0"),)


def test_a_check_is_filled_in_by_host() -> None:
    text = BASE + "  - sockets: {process: trainer, local: '${{ nics.data.ip }}', ignore_port: 1}\n"
    scenario = loads(text).scenario
    plan = make_plan(scenario, choose(scenario, "run", ()))
    check = scenario.checks[-1].sockets
    assert check is not None
    assert expand_check(scenario, plan, check.local, "b") == "192.168.0.2"


@pytest.mark.parametrize(
    ("run", "fragments"),
    [
        ("a §${{ rnig.rank }}", ['nothing is called "rnig"', "allowed host, nics", 'mean "ring"']),
        ("a §${{ ring.rnk }}",
         ['"rnk" below ring', "allowed master, port, size, rank", 'mean "rank"']),
        ("§${{ nics.dta.name }}", ['"dta" below nics', "allowed mgmt, data", 'mean "data"']),
        ("§${{ nics.data.mac }}", ['"mac" below nics.data', "allowed name, ip"]),
        ("§${{ nics.data }}", ["not a value", "allowed nics.data.name, nics.data.ip"]),
        ("§${{ ring.rank.x }}", ["ring.rank is a value"]),
        ("§${{ hosts.d.nics.data.ip }}", ['"d" below hosts', "allowed a, b, c"]),
        ("§${{ hosts.c.nics.data.ip }}", ['"data" below hosts.c.nics', "allowed spare"]),
        ("§${{ data.cifar }}", ['"cifar" below data', "allowed mnist"]),
        ("§${{ ring.rank + 1 }}", ["not a template path", "no expressions"]),
        ("§${{ }}", ["not a template path"]),
        ("§${{ ring. }}", ["not a template path"]),
        ("${{ ring.rank }} §${{ ring.rank", ["not closed", "allowed ${{ path }}"]),
        ("§${{ ring.rank } }", ["not closed"]),
        ("${{ ring.rank }} ${{ ring.port }} §${{ ring.x }} ${{ ring.size }}", ['"x" below ring']),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "style", ["'{}'", '"{}"', ">-\n      {}", "|\n      {}", "> # ${{{{\n      b\n      {}"]
)
def test_a_wrong_template_is_refused_where_it_is_written(
    run: str, fragments: list[str], style: str
) -> None:
    text = f"  trainer:\n    hosts: ring\n    run: {style.format(run)}"
    assert_refused(
        changed('  trainer: {hosts: ring, run: "true"}', text), "processes.trainer.run", *fragments
    )


def test_a_wrong_template_in_the_middle_of_a_folded_text() -> None:
    text = """  trainer:
    hosts: ring
    run: >-
      python -m trainer
      --rank ${{ ring.rank }} --size ${{ ring.size }}
      --name ${{ ring.rank }} --master §${{ ring.mster }}
      --interface ${{ nics.data.name }}"""
    assert_refused(
        changed('  trainer: {hosts: ring, run: "true"}', text),
        "processes.trainer.run",
        'did you mean "master"',
    )


@pytest.mark.parametrize(
    ("new", "path"),
    [
        ('run: [x, "y §${{ ring.x }}"]', "processes.trainer.run[1]"),
        ('run: x, env: {A: "y §${{ ring.x }}"}', "processes.trainer.env.A"),
    ],
)
def test_wrong_templates_elsewhere(new: str, path: str) -> None:
    assert_refused(changed('run: "true"', new), path, '"x" below ring')


def test_a_wrong_template_of_a_check() -> None:
    new = "sockets: {process: trainer, local: '§${{ nics.spare.ip }}'}"
    text = changed("exit: {process: trainer, code: 0}", new)
    assert_refused(text, "checks[0].sockets.local", '"spare" below nics', "allowed mgmt, data")


def test_what_is_wrong_on_some_hosts_names_them() -> None:
    text = changed('run: ["true"]', 'run: ["§${{ ring.rank }}"]')
    assert_refused(text, "processes.other.run[0]", "the host is not a member of group ring (on c)")
    text = changed('run: ["true"]', 'run: ["§${{ nics.data.ip }}"]')
    assert_refused(text, "processes.other.run[0]", '"data" below nics (on c)')


def test_every_wrong_template_is_told() -> None:
    text = changed(
        'run: "true"', 'run: "${{ a }} ${{ ring.rank }} ${{ b }} ${{ ring.rank }} ${{ c }}"'
    )
    assert [problem.found for problem in problems_of(text)] == ["a", "b", "c"]


def test_a_template_spelt_with_escapes_is_told_at_its_text() -> None:
    assert_refused(
        changed('run: "true"', 'run: §"\\x24{{ ring.x }}"'), "processes.trainer.run", '"x" below'
    )


def test_too_many_look_ups_are_refused() -> None:
    text = changed('run: "true"', "run: '" + "${{ ring.rank }}" * 6_000 + "'")
    hosts = "".join(f"  h{n}: {{nics: {{data: x}}}}\n" for n in range(20))
    members = ", ".join(f"h{n}" for n in range(20))
    text = text.replace("data: {mnist", f"{hosts}data: {{mnist").replace(
        "[a, b]", f"[a, b, {members}]"
    )
    assert "look-ups" in str(problems_of(text)[0])
