"""A helper beside a host: the node image, in the host's network and among its processes.

It stays until the host goes: a check that looks again and again does not pay
for a container each time. When the host restarts, its process ids are new ones
and the helper ends with the old; then there is another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docker.errors import APIError, NotFound
from docker.types import LogConfig

from fedtest.engine import examine, inside
from fedtest.engine.docker import images, labels
from fedtest.engine.docker.client import engine_errors, gone_is_fine
from fedtest.engine.docker.scripts import finish
from fedtest.errors import EngineError

if TYPE_CHECKING:
    from fedtest.engine.base import RunTag
    from fedtest.engine.docker.client import DockerClient
    from fedtest.engine.examine import Examination, Examined

_ROOT = "/proc/1/root"
"""The host's files, as whoever sees its processes may see them."""


def look_beside(
    client: DockerClient, run: RunTag, host: str, wanted: Examination, end: float
) -> Examined:
    """Run the probe in the host's helper, which is made if it is not there. DeadlineError."""
    command = ["python3", "-m", examine.MODULE, examine.request(wanted, _ROOT)]
    out = _run(client, run, host, command, build=not wanted.stacks, end=end)
    return examine.parse(host, wanted, out)


def describe_beside(client: DockerClient, run: RunTag, host: str, end: float) -> str:
    """What `inside.SNAPSHOT` prints, of a host that cannot tell it: it has no process to spare."""
    command = ["/bin/sh", "-c", inside.FROM_BESIDE]
    return inside.told_beside(_run(client, run, host, command, build=False, end=end))


def _run(
    client: DockerClient, run: RunTag, host: str, command: list[str], *, build: bool, end: float
) -> str:
    """What a command in the helper prints. `build`: the helper's image, if it is not there."""
    what = f"looking at host {host} from beside it"
    helper = f"{labels.container_name(run.id, host)}.beside"
    with engine_errors(what):
        try:
            execution = client.api.exec_create(helper, command, user="0:0")
        except APIError as error:
            if not isinstance(error, NotFound) and error.status_code != 409:
                raise
            with gone_is_fine():
                client.api.remove_container(helper, force=True)
            _make(client, run, host, _image(client, run, build=build))
            execution = client.api.exec_create(helper, command, user="0:0")
        out, errors = finish(client, execution["Id"], what, end)
    if not out:
        said = errors.decode("utf-8", "replace")
        raise EngineError(f"{what}: {said[-1000:]}")
    return out.decode("utf-8", "replace")


def _image(client: DockerClient, run: RunTag, *, build: bool) -> str:
    """To tell what processes do, nobody waits for an image to be built: they may end meanwhile."""
    if build:
        return images.node_image(client, progress=lambda _: None, labels=labels.of_run(run))
    image = images.present_node_image(client)
    if image is None:
        raise EngineError("the node image is not there", remedy="`fedtest image` builds it.")
    return image


def _make(client: DockerClient, run: RunTag, host: str, image: str) -> None:
    container = labels.container_name(run.id, host)
    helper = f"{container}.beside"
    client.api.create_container(
        image,
        name=helper,
        entrypoint=["sleep", "2147483647"],
        user="0:0",
        labels={**labels.of_run(run), labels.HELPER: host},
        host_config=client.api.create_host_config(
            network_mode=f"container:{container}",
            pid_mode=f"container:{container}",
            cap_drop=["ALL"],
            # To see what the host's processes do and have open, and to read any file.
            cap_add=["SYS_PTRACE", "DAC_READ_SEARCH"],
            log_config=LogConfig(type="json-file", config={"max-size": "1m"}),
        ),
    )
    client.api.start(helper)
