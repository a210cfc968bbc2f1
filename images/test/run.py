"""Run tests/node inside the node image: `python images/test/run.py [pytest arguments]`.

The tests are copied in, not mounted, so that the engine may be anywhere; MNIST
is at /data. Exits with pytest's own status, or 3 if the testbed could not do it.
"""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

from fedtest.engine.docker.client import engine_errors, gone_is_fine
from fedtest.engine.docker.images import ensure_image
from fedtest.engine.docker.labels import HELPER, OWNER, RUN
from fedtest.engine.docker.reach import reach
from fedtest.engine.docker.volumes import ensure_volume
from fedtest.engine.owner import Owner
from fedtest.errors import FedtestError
from fedtest.plan import BuildSpec, ImagePlan

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COPIED = ("tests/foreground.py", "tests/node", "examples")
PYTEST = (
    # What pyproject.toml says where there is one. A rank starts in seconds on a loaded machine.
    *("python3", "-m", "pytest", "-p", "no:cacheprovider", "-ra"),
    *("--rootdir", ".", "-o", "pythonpath=tests"),
    *("--random-order", "--timeout", "300", "--timeout-method", "signal"),
)


def main(arguments: list[str]) -> int:
    owner = Owner.me()
    labels = {RUN: f"node-tests-{owner.pid}", OWNER: str(owner), HELPER: "node-tests"}
    client = reach()
    plan = ImagePlan(build=BuildSpec(str(HERE), str(HERE / "Dockerfile")))
    image = ensure_image(client, plan, progress=say, labels=labels)
    volume = ensure_volume(client, "mnist", image=image, labels=labels, progress=say)
    with engine_errors("running the tests in a container"):
        config = client.api.create_host_config(
            binds={volume: {"bind": "/data", "mode": "ro"}}, init=True, shm_size="1g"
        )
        container = client.api.create_container(
            image,
            [*PYTEST, "tests/node", *arguments],
            user="fedtest",
            working_dir="/home/fedtest",
            environment={"FEDTEST_MNIST": "/data"},
            labels=labels,
            host_config=config,
        )["Id"]
        try:
            client.api.put_archive(container, "/home/fedtest", packed_tests())
            stream = client.api.attach(container, stream=True, logs=True)
            client.api.start(container)
            for piece in stream:
                sys.stdout.buffer.write(piece)
                sys.stdout.flush()
            return int(client.api.wait(container)["StatusCode"])
        finally:
            with gone_is_fine():
                client.api.remove_container(container, force=True, v=True)
            client.close()


def packed_tests() -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name in COPIED:
            tar.add(ROOT / name, name, filter=ours)
    file.seek(0)
    return file


def ours(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if info.name.endswith("__pycache__"):
        return None
    info.uid = info.gid = 1000
    return info


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except FedtestError as error:
        say(f"{error.message}\n{error.remedy}".rstrip())
        sys.exit(int(error.exit_code))
