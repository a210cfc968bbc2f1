"""A host is a container whose first process is ours, whatever the image's entrypoint."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from docker.types import LogConfig

from fedtest.engine import inside, snapshot
from fedtest.engine.docker import labels
from fedtest.engine.docker.client import close_response, engine_errors, gone_is_fine
from fedtest.engine.docker.frames import NEEDED
from fedtest.engine.docker.helper import create_helper
from fedtest.engine.docker.provisions import Parcels, limits, mounts, refuse_warnings, told_apart
from fedtest.engine.docker.scripts import run_script
from fedtest.engine.settings import setting_files
from fedtest.errors import DeadlineError, EngineError
from fedtest.plan import ImagePlan

if TYPE_CHECKING:
    from fedtest.engine.base import Prepared, RunTag
    from fedtest.engine.docker.client import DockerClient
    from fedtest.plan import HostPlan

API_NAMES = (1, 48)
"""Engine API from which an endpoint option names the interface (Engine 28.0)."""

API_ENDPOINTS = (1, 44)
"""Engine API from which a container is created on several networks at once (Engine 25.0)."""

_IFNAME = "com.docker.network.endpoint.ifname"
_SHM = 1 << 29  # torch's data loaders share memory; Docker gives 64 MB.


class Hosts:
    """The hosts of one run on one engine."""

    def __init__(self, client: DockerClient, run: RunTag, prepared: Prepared) -> None:
        self._client = client
        self._run = run
        self._prepared = prepared
        self._parcels = Parcels(client)
        with engine_errors("listing the run's hosts"):
            found = client.api.containers(
                all=True, filters={"label": [f"{labels.RUN}={run.id}", labels.HOST]}
            )
        self._present = {item["Labels"][labels.HOST]: item["State"] for item in found}

    def realise(self, host: HostPlan, end: float) -> snapshot.Snapshot:
        """Make, start and name one host, whatever of it is there; read it back."""
        state = self._present.get(host.name)
        if state is None:
            self._create(host)
        if state == "running":
            text = self._described(host, end)
        elif state is not None:
            # Its log has what it said when it was started before, and what it says now may
            # bear an earlier time than the engine has for its start.
            with engine_errors(f"starting host {host.name}"), told_apart(host):
                self._client.api.start(self._name(host.name))
            text = self._described(host, end)
        else:
            with told_apart(host):
                text = self._started(self._name(host.name), f"host {host.name}", end)
        found = parsed(host.name, text)
        if self._client.api_version < API_NAMES:
            # Told by the helper, whose first process is another.
            renamed = parsed(host.name, self._rename(host, end))
            return replace(
                renamed, born=found.born, oom_kills=found.oom_kills, settings=found.settings
            )
        return found

    def _described(self, host: HostPlan, end: float) -> str:
        """What a host says of itself that has been started before."""
        script, files = inside.SNAPSHOT_WHEN_UP, setting_files(host)
        return run_script(self._client, self._run, host.name, script, *files, end=end)

    def _started(self, container: str, whom: str, end: float) -> str:
        """Start a container of ours; what it says of itself, up to the closing line.

        From its log, followed: an attached stream may miss the first words,
        since the engine answers before it is wired up.
        """
        api: Any = self._client.api  # The stubs know less than we need.
        text = ""
        with engine_errors(f"starting {whom}"):
            api.start(container)
            stream = api.logs(container, stream=True, follow=True)
            # The SDK takes every time-out off the stream when it is first read.
            watchdog = threading.Timer(max(end - time.monotonic(), 1.0), stream.close)
            watchdog.start()
            try:
                for piece in stream:
                    text += str(piece.decode("utf-8", "replace"))
                    if inside.END in text:
                        return text
                    if time.monotonic() > end:
                        break
            finally:
                watchdog.cancel()
                stream.close()
                close_response(stream)
        if time.monotonic() > end:
            raise DeadlineError(f"{whom}: not ready in time; it said: {text[-500:]!r}")
        raise EngineError(
            f"{whom}: did not describe itself; it said: {text[-500:]!r}", remedy=NEEDED
        )

    def _name(self, host: str) -> str:
        return labels.container_name(self._run.id, host)

    def _create(self, host: HostPlan) -> None:
        api = self._client.api
        endpoints = {
            labels.network_name(self._run.id, item.network): api.create_endpoint_config(
                ipv4_address=str(item.address.ip),
                driver_opt={_IFNAME: item.interface}
                if self._client.api_version >= API_NAMES
                else None,
            )
            for item in host.attachments
        }
        first = next(iter(endpoints), "none")
        at_once = endpoints
        if self._client.api_version < API_ENDPOINTS:
            at_once = {name: endpoints[name] for name in list(endpoints)[:1]}
        with told_apart(host), engine_errors(f"making host {host.name}"):
            created = api.create_container(
                self._prepared.images[host.image],
                name=self._name(host.name),
                hostname=host.name,
                entrypoint=["/bin/sh", "-c", inside.FIRST_PROCESS, "fedtest-host"],
                command=[
                    inside.hosts_file(host.names),
                    inside.resolv_conf(host.dns),
                    *setting_files(host),
                ],
                user="0:0",
                labels={**labels.of_run(self._run), labels.HOST: host.name},
                # The low-level call sends this as it is; the high-level one drops
                # all of it when one key does not match.
                networking_config=api.create_networking_config(at_once),  # type: ignore[arg-type] # the stub knows one endpoint only
                host_config=api.create_host_config(
                    network_mode=first,
                    init=True,
                    # Root in the host may see what sockets and files the plain
                    # user's processes have; nothing outside the host is reached by it.
                    cap_add=["SYS_PTRACE"],
                    shm_size=_SHM,
                    log_config=LogConfig(type="json-file", config={"max-size": "8m"}),
                    mounts=mounts(host, self._prepared.data),
                    **limits(host),
                ),
            )
            for item in host.attachments[1:] if len(endpoints) > len(at_once) else ():
                api.connect_container_to_network(
                    self._name(host.name),
                    labels.network_name(self._run.id, item.network),
                    ipv4_address=str(item.address.ip),
                )
        refuse_warnings(host, created)
        self._parcels.put(host, self._name(host.name))

    def _rename(self, host: HostPlan, end: float) -> str:
        """For engines that cannot name interfaces: from a helper in the host's namespace."""
        api = self._client.api
        doing = f"naming the interfaces of host {host.name}"
        with engine_errors(doing):
            endpoints = api.inspect_container(self._name(host.name))["NetworkSettings"]["Networks"]
            pairs: list[str] = []
            for item in host.attachments:
                endpoint = endpoints[labels.network_name(self._run.id, item.network)]
                # One that is to have another may have it already.
                macs = (endpoint["MacAddress"], *([item.mac] if item.mac else []))
                pairs += [",".join(macs), item.interface]
            helper = create_helper(
                self._client,
                self._run,
                host.name,
                image=self._prepared.images[ImagePlan()],
                purpose="names",
                command=["/bin/sh", "-c", inside.RENAME, "fedtest-names", *pairs],
            )
            try:
                return self._started(helper, doing, end)
            finally:
                with gone_is_fine():
                    api.remove_container(helper, force=True, v=True)


def parsed(host: str, text: str) -> snapshot.Snapshot:
    """What a host said of itself, read; EngineError if it cannot be."""
    try:
        return snapshot.parse(text)
    except ValueError as error:
        raise EngineError(f"host {host}: {error}", remedy=NEEDED) from error
