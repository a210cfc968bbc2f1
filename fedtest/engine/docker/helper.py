"""A helper: a container of ours in a host's network namespace, with the right to change it.

The host itself never has that right, and its image need not have the tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docker.errors import NotFound
from docker.types import LogConfig

from fedtest.engine.docker import labels
from fedtest.engine.docker.client import engine_errors, gone_is_fine
from fedtest.engine.docker.scripts import run_checked

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.engine.base import RunTag
    from fedtest.engine.docker.client import DockerClient

_SINCE = "fedtest.helper.since"
"""Label of a helper: which start of its host the network namespace is of."""
_NET_ADMIN = ["NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE"]
_READ_ONLY = [
    *("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sysrq-trigger"),
    *(f"/proc/sys/{name}" for name in ("abi", "crypto", "debug", "dev", "fs", "kernel")),
    *(f"/proc/sys/{name}" for name in ("sunrpc", "user", "vm")),
]
"""What of /proc is not to be changed: all that an engine says, but for the network's settings,
which are the host's own like its interfaces."""


def create_helper(
    client: DockerClient, run: RunTag, host: str, *, image: str, purpose: str, command: list[str]
) -> str:
    """Create and start one, in place of an earlier one for the same purpose; its name.

    `image` is the node image: iproute2, iptables and Python are in it.
    """
    api = client.api
    name = _name(run, host, purpose)
    with gone_is_fine():
        api.remove_container(name, force=True, v=True)
    host_config = api.create_host_config(
        network_mode=f"container:{labels.container_name(run.id, host)}",
        init=True,
        cap_drop=["ALL"],
        cap_add=_NET_ADMIN,
        log_config=LogConfig(type="json-file", config={"max-size": "1m"}),
    )
    host_config["ReadonlyPaths"] = _READ_ONLY  # The SDK does not know it.
    api.create_container(
        image,
        name=name,
        entrypoint=command[:1],
        command=command[1:],
        user="0:0",
        labels={
            **labels.of_run(run),
            labels.HELPER: host,
            _SINCE: _started_at(client, labels.container_name(run.id, host)),
        },
        host_config=host_config,
    )
    api.start(name)
    return name


def run_in_network(
    client: DockerClient,
    run: RunTag,
    host: str,
    script: str,
    *,
    image: Callable[[], str],
    end: float,
) -> str:
    """Run a shell script in the host's network namespace; what it printed.

    The helper stays for the next script and for what this one leaves running;
    it is made anew when the host was started anew, since the old namespace is
    gone then. EngineError with the script's errors if it fails.
    """
    doing = f"changing the network of host {host}"
    with engine_errors(doing):
        helper = _present(client, run, host) or create_helper(
            client, run, host, image=image(), purpose="net", command=["sleep", "2147483647"]
        )
        return run_checked(client, helper, ["/bin/sh", "-c", script], doing, end)


def _present(client: DockerClient, run: RunTag, host: str) -> str | None:
    """The helper that is there, if it is in the namespace that the host has now."""
    name = _name(run, host, "net")
    try:
        found = client.api.inspect_container(name)
    except NotFound:
        return None
    since = _started_at(client, labels.container_name(run.id, host))
    current = found["State"]["Running"] and found["Config"]["Labels"].get(_SINCE) == since
    return name if current else None


def _name(run: RunTag, host: str, purpose: str) -> str:
    return f"{labels.container_name(run.id, host)}.{purpose}"


def _started_at(client: DockerClient, container: str) -> str:
    return str(client.api.inspect_container(container)["State"]["StartedAt"])
