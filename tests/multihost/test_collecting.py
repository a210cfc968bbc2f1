"""Files that hosts leave: they are in the run's directory, and it is noticed when one is not."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import CommandLine

TEXT = """
fedtest: 1
name: collected
networks: {data: {}}
hosts:
  a: {nics: {data: eth0}, collect: [/tmp/out/bytes, {path: /tmp/out/link, optional: true}]}
  b: {nics: {data: ib0}, collect: [{path: /tmp/out/bytes, optional: true}]}
processes:
  write:
    hosts: [a]
    run: >-
      umask 077 && mkdir /tmp/out && head -c 3000000 /dev/urandom > /tmp/out/bytes &&
      ln -s /etc/hostname /tmp/out/link && sha256sum < /tmp/out/bytes
"""


def test_files_of_hosts_are_copied_before_the_hosts_are_removed(fedtest: CommandLine) -> None:
    done = fedtest("run", fedtest.scenario("collected", TEXT))
    assert done.code == 0, done.out + done.err
    found = {(item["host"], item["path"]): item for item in done.result["collected"]}
    assert found.keys() == {("a", "/tmp/out/bytes"), ("a", "/tmp/out/link")}
    assert found["a", "/tmp/out/bytes"]["size"] == 3_000_000
    run = done.runs / "latest"
    content = (run / found["a", "/tmp/out/bytes"]["file"]).read_bytes()
    digest = (run / "logs" / "a.write.log").read_text(encoding="utf-8").split()[0]
    assert hashlib.sha256(content).hexdigest() == digest
    # A link leads where it does in the host, not here.
    assert (run / "files" / "a" / "tmp" / "out" / "link").read_text(encoding="utf-8") == "a\n"
    assert "files of hosts: files/a/tmp/out/bytes, files/a/tmp/out/link" in done.out


def test_a_file_that_is_not_there_fails_the_run(fedtest: CommandLine) -> None:
    text = TEXT.replace("{path: /tmp/out/bytes, optional: true}", "/tmp/out/bytes")
    done = fedtest("run", fedtest.scenario("collected", text))
    assert done.code == 1, done.out + done.err
    assert "host b: /tmp/out/bytes was to be collected: it is not there" in done.out
    assert (done.runs / "latest" / "files" / "a" / "tmp" / "out" / "bytes").exists()
