"""The plan as plain data, for people and for artifacts: what is not asked for is left out."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from fedtest.plan_provisions import shorten
from fedtest.scenario.base import Part

if TYPE_CHECKING:
    from fedtest.plan import Plan


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The plan as plain data for JSON, for people and for artifacts.

    Names are mostly the same in all hosts: the first host's are written once,
    and a host's own only where they differ. A thousand times a thousand lines
    would be nothing to read, and a gigabyte.
    """
    plain = _with_names_once(plan)
    for host, part in zip(plain["hosts"], plan.hosts, strict=True):
        host["data"] = dict(part.data)
        for key in ("routes", "closed", "forward", "dns"):
            if not host[key]:
                del host[key]
        shorten(host, part.sysctls)
        for attachment, nic in zip(host["attachments"], part.attachments, strict=True):
            # Where nothing is asked for, there is nothing to read.
            if nic.link.empty:
                del attachment["link"]
            if nic.mtu is None:
                del attachment["mtu"]
            if nic.up:
                del attachment["up"]
            if not nic.settled:
                del attachment["ipv4"], attachment["address6"], attachment["mac"]
        if not part.barriers:
            del host["barriers"]
    for process, item in zip(plain["processes"], plan.processes, strict=True):
        process["env"] = dict(item.env)
        if not item.after:
            del process["after"]
        if not item.service:
            del process["service"]
    return plain


def with_examples(plan: Plan) -> dict[str, Any]:
    """The same of a plan that nothing is made of: which of its addresses are examples is said."""
    free = ", ".join(network.name for network in plan.networks if not network.fixed)
    if not free:
        return plan_to_dict(plan)
    note = f"subnets are chosen when the run starts; addresses here are examples: {free}"
    return {"note": note, **plan_to_dict(plan)}


def _with_names_once(plan: Plan) -> dict[str, Any]:
    names = plan.hosts[0].names if plan.hosts else ()
    same = [host.names == names for host in plan.hosts]
    hosts = (
        replace(host, names=()) if alike else host
        for host, alike in zip(plan.hosts, same, strict=True)
    )
    plain: dict[str, Any] = _plain(replace(plan, hosts=tuple(hosts)))
    plain["names"] = _plain(names)
    for host, alike in zip(plain["hosts"], same, strict=True):
        if alike:
            del host["names"]
    return plain


def _plain(value: object) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Part):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, type(None))) else str(value)
