"""What names lead to: in a host's /etc/hosts, and in the DNS that it asks."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from fedtest.scenario.ip_types import address_in
from fedtest.scenario.names import HOST
from fedtest.scenario.refusal import refuse

MISSING = "missing"
FAILURES = ("nxdomain", "servfail", "silent")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")


def _domain(value: str) -> str:
    allowed = "letters, digits and hyphens, with dots between; at most 253 characters"
    value = value.removesuffix(".").lower()
    if len(value) > 253 or not all(_LABEL.fullmatch(label) for label in value.split(".")):
        raise refuse("not a name that hosts can look up", allowed=allowed)
    if address_in(value) is not None or value.rpartition(".")[2].isdigit():
        raise refuse("a name that would be taken for an address", allowed=allowed)
    if value == "localhost":
        raise refuse("a name that every host needs itself", allowed="any other name")
    return value


def _leads_to(value: str, words: tuple[str, ...]) -> str:
    found = address_in(value)
    if found is None and not HOST.fullmatch(value):
        allowed = f"an address, a host's name, {' or '.join(words)}"
        raise refuse("nothing that a name can lead to", allowed=allowed)
    return str(found or value)


def _kind(title: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "title": title})


DomainName = Annotated[str, AfterValidator(_domain), _kind("name")]
HostsEntry = Annotated[
    str,
    AfterValidator(lambda value: _leads_to(value, (MISSING,))),
    _kind("address, host's name or `missing`"),
]
DnsAnswer = Annotated[
    str,
    AfterValidator(lambda value: _leads_to(value, FAILURES)),
    _kind("address, host's name, `nxdomain`, `servfail` or `silent`"),
]
