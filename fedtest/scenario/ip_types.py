"""Addresses as the file writes them: of either family, none, and of an interface itself."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, PlainSerializer, PlainValidator, WithJsonSchema

from fedtest.scenario.names import HOST, ipv4
from fedtest.scenario.refusal import refuse

NONE: Literal["none"] = "none"
ANY = (IPv4Network("0.0.0.0/0"), IPv6Network("::/0"))
_DIGITS = re.compile(r"[0-9A-Fa-f:.]{2,45}")
_MAC = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}")
_NOT_FOR_HOSTS = {
    IPv6Network("::/8"): "reserved",
    IPv6Network("fe80::/10"): "link-local",
    IPv6Network("ff00::/8"): "multicast",
}

Address = IPv4Address | IPv6Address
Subnets = IPv4Network | IPv6Network


def address_in(text: str) -> Address | None:
    """The address that the text is, or None."""
    # Looked at first, because ipaddress takes more than ASCII digits.
    if not _DIGITS.fullmatch(text):
        return None
    try:
        return IPv6Address(text) if ":" in text else IPv4Address(text)
    except ValueError:
        return None


def subnet_in(text: str) -> Subnets | None:
    """The network that the text is, host bits zero; or None."""
    address, _, prefix = text.partition("/")
    if address_in(address) is None or not re.fullmatch(r"[0-9]{1,3}", prefix):
        return None
    try:
        return IPv6Network(text) if ":" in text else IPv4Network(text)
    except ValueError:
        return None


def _ipv6(value: Any) -> IPv6Address:
    found = address_in(value) if isinstance(value, str) else None
    if not isinstance(found, IPv6Address):
        raise refuse("not an address", allowed="an IPv6 address like fd00:1::1")
    return found


def _subnet6(value: Any) -> IPv6Network:
    allowed = "an IPv6 network with a prefix of 64 to 120, like fd00:1::/64"
    found = subnet_in(value) if isinstance(value, str) else None
    if not isinstance(found, IPv6Network) or not 64 <= found.prefixlen <= 120:
        raise refuse("not a subnet", allowed=allowed)
    for taken, what in _NOT_FOR_HOSTS.items():
        if found.overlaps(taken):
            message = f"the subnet overlaps {taken}, which is {what}"
            raise refuse(message, allowed="unique local addresses: fd00::/8")
    return found


def _ipv4_or_none(value: Any) -> IPv4Address | Literal["none"]:
    return NONE if value == NONE else ipv4(value)


def _ipv6_or_none(value: Any) -> IPv6Address | Literal["none"]:
    return NONE if value == NONE else _ipv6(value)


def _mac(value: Any) -> str:
    allowed = 'six pairs of hexadecimal digits like "02:00:00:00:00:01"'
    if not isinstance(value, str) or not _MAC.fullmatch(value):
        raise refuse("not a MAC address", allowed=allowed)
    if int(value[:2], 16) & 1:
        raise refuse("a MAC address of several hosts", allowed=f"{allowed}; the first pair even")
    if not int(value.replace(":", ""), 16):
        raise refuse("the MAC address that is none", allowed=allowed)
    return str(value.lower())


def _place(value: str) -> str:
    found = address_in(value)
    if found is None and not HOST.fullmatch(value):
        raise refuse("neither a host's name nor an address", allowed="a host's name or an address")
    return str(found or value)


def _destination(value: str) -> str:
    found = subnet_in(value)
    if found is None and not HOST.fullmatch(value):
        allowed = "a network's name, or a prefix like 10.1.0.0/16"
        raise refuse("neither a network's name nor a prefix", allowed=allowed)
    return str(found or value)


def _kind(title: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "title": title})


Subnet6 = Annotated[
    IPv6Network, PlainValidator(_subnet6), PlainSerializer(str), _kind("IPv6 network")
]
NicIp = Annotated[
    IPv4Address | Literal["none"],
    PlainValidator(_ipv4_or_none),
    PlainSerializer(str),
    _kind("IPv4 address or `none`"),
]
NicIp6 = Annotated[
    IPv6Address | Literal["none"],
    PlainValidator(_ipv6_or_none),
    PlainSerializer(str),
    _kind("IPv6 address or `none`"),
]
Mac = Annotated[str, PlainValidator(_mac), _kind("MAC address")]
Place = Annotated[str, AfterValidator(_place), _kind("host's name or address")]
Destination = Annotated[str, AfterValidator(_destination), _kind("network's name or prefix")]
