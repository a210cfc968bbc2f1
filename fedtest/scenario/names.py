"""The names in a scenario, and what each may be: annotated strings for the model."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network
from keyword import iskeyword
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, PlainSerializer, PlainValidator, WithJsonSchema

from fedtest.scenario.problems import shown
from fedtest.scenario.refusal import refuse

# The first words of template paths, and words kept free for what may come.
_ROOTS = {"host", "hosts", "nics", "data", "seed"}
_KEPT = {"count", "env", "group", "groups", "index", "matrix", "name", "network", "networks"}
_KEPT |= {"process", "processes", "run", "scenario", "secret", "secrets"}
RESERVED = frozenset(_ROOTS | _KEPT)
MAX_NAME = 32
_NAME = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
HOST = re.compile(rf"(?=.{{1,{MAX_NAME}}}$){_NAME.pattern}")
_GROUP = re.compile(r"[a-z](?:[a-z0-9_-]*[a-z0-9_])?")
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_USER = re.compile(
    r"(?:[a-z_][a-z0-9_-]{0,31}|[0-9]{1,9})(?::(?:[a-z_][a-z0-9_-]{0,31}|[0-9]{1,9}))?"
)
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
_ADDRESS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")


def _string(value: Any, what: str, allowed: str) -> str:
    if not isinstance(value, str):
        hint = f'"{value}" in quotes is a string' if isinstance(value, (int, float)) else ""
        raise refuse(f"{what} is not a string", allowed=allowed, hint=hint)
    return value


def _slug(value: str, what: str, limit: int, pattern: re.Pattern[str], characters: str) -> str:
    if len(value) > limit:
        raise refuse(f"{what} is too long: {len(value)} characters", allowed=f"at most {limit}")
    if not pattern.fullmatch(value):
        allowed = f"{characters}; a letter first, no hyphen last"
        lower = re.sub(r"[^a-z0-9-]+", "-", value.lower()).strip("-")
        hint = f'did you mean "{lower}"?' if pattern.fullmatch(lower) else ""
        raise refuse(f"not {what}", allowed=allowed, hint=hint)
    return value


_CHARACTERS = "small letters, digits and hyphens"


def _scenario(value: str) -> str:
    return _slug(value, "a scenario's name", 40, _NAME, _CHARACTERS)


def _name(value: str) -> str:
    return _slug(value, "a name", MAX_NAME, _NAME, _CHARACTERS)


def _host(value: str) -> str:
    _slug(value, "a host's name", MAX_NAME, _NAME, _CHARACTERS)
    if value == "localhost":
        raise refuse("a host's name that already means something", allowed="any other name")
    return value


def _group(value: str) -> str:
    _slug(
        value, "a group's name", MAX_NAME, _GROUP, f"{_CHARACTERS[:-12]}, hyphens and underscores"
    )
    if value in RESERVED:
        message = f"{shown(value)} is the beginning of other template paths"
        raise refuse(message, allowed=f"any name but {', '.join(sorted(RESERVED))}")
    return value


_NOT_IN_INTERFACE = frozenset("%#'\"\\")


def _interface(given: Any) -> str:
    allowed = "1 to 15 characters, no '/', ':' or white space, not lo"
    value = _string(given, "an interface name", allowed)
    if not 1 <= len(value) <= 15:
        what = "too long" if value else "empty"
        message = f"the interface name is {what}: {len(value)} characters"
        raise refuse(message, allowed=allowed)
    if bad := sorted({char for char in value if char in "/:" or char.isspace()}):
        raise refuse(f"an interface name with {', '.join(map(shown, bad))}", allowed=allowed)
    # Not forbidden in every kernel, but none of these would arrive: the kernel
    # numbers names with %, `ip` takes a leading hyphen for an option, and in what
    # it reads from a file `#` for the end of a line, quotes and `\\` for quoting.
    plain = value.isascii() and value.isprintable() and value[0] not in "-."
    if not plain or set(value) & _NOT_IN_INTERFACE:
        raise refuse(
            "an interface name that tools cannot be given",
            allowed=f"{allowed}; ASCII, no '%', '#', quotes, '\\', no leading hyphen or dot",
        )
    if value in ("lo", ".", "..", "all", "default"):
        raise refuse("an interface name that the kernel has taken", allowed=allowed)
    return value


def _environment(value: str) -> str:
    if not _ENVIRONMENT.fullmatch(value):
        allowed = "letters, digits and underscores, no digit first"
        raise refuse("not a name of an environment variable", allowed=allowed)
    return value


def _module(value: str) -> str:
    parts = value.split(".")
    if len(value) > 200 or not all(part.isidentifier() and not iskeyword(part) for part in parts):
        raise refuse("not a module's name", allowed="a name as `import` takes it, like torch.optim")
    return value


def _user(value: str) -> str:
    if not _USER.fullmatch(value):
        raise refuse("not a user", allowed="a user's name or number, or user:group")
    return value


def _image(value: str) -> str:
    if not _IMAGE.fullmatch(value):
        raise refuse("not the name of an image", allowed="a name like registry/name:tag")
    return value


_SYSTEM = ("proc", "sys", "dev", "etc", "bin", "sbin", "lib", "lib64", "usr", "boot")


def _directory(value: Any) -> str:
    allowed = "an absolute path in the host, like /data"
    value = _string(value, "a directory", allowed)
    path = PurePosixPath(value)
    if not path.is_absolute() or ".." in path.parts or value.startswith("//"):
        raise refuse("not a directory that data can be put at", allowed=allowed)
    if ":" in value or not value.isprintable() or len(value) > 200:
        raise refuse("not a directory that data can be put at", allowed=f"{allowed}, without ':'")
    if len(path.parts) < 2 or (path.parts[1] in _SYSTEM or path == PurePosixPath("/run")):
        raise refuse("a directory that the host needs itself", allowed=allowed)
    return str(path)


_LONGEST_PATH = 1000


def plain_path(value: Any, problem: str, allowed: str) -> PurePosixPath:
    """The absolute path of a file in a host, in its plain form; refused as `problem` if not."""
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        raise refuse(problem, allowed=allowed)
    path = PurePosixPath(value)
    if ".." in path.parts or len(value) > _LONGEST_PATH or not path.name:
        raise refuse(problem, allowed=allowed)
    plain = "/" + str(path).lstrip("/")  # POSIX leaves it open what two at the start mean
    if plain != value:
        hint = f'did you mean "{plain}"?'
        raise refuse("not the plain form of a path", allowed=allowed, hint=hint)
    return path


def ipv4(value: Any) -> IPv4Address:
    """The address; refused if it is none."""
    allowed = "an IPv4 address like 192.168.0.1"
    value = _string(value, "an address", allowed)
    # Looked at first, because ipaddress goes by int(), which takes more than ASCII digits.
    if not _ADDRESS.fullmatch(value):
        raise refuse("not an address", allowed=allowed)
    try:
        return IPv4Address(value)
    except ValueError as error:
        raise refuse("not an address", allowed=allowed) from error


def _subnet(value: Any) -> IPv4Network:
    allowed = "an IPv4 network like 192.168.0.0/24"
    value = _string(value, "a subnet", allowed)
    address, slash, prefix = value.partition("/")
    if not _ADDRESS.fullmatch(address) or not re.fullmatch(r"[0-9]{1,2}", prefix):
        hint = "" if slash else "add a prefix: /24"
        hint = "an IPv6 network is a `subnet6`" if ":" in value else hint
        raise refuse("not a subnet", allowed=allowed, hint=hint)
    try:
        network = IPv4Network(value, strict=False)
    except ValueError as error:
        raise refuse("not a subnet", allowed=allowed) from error
    if str(network.network_address) != address:
        hint = f'did you mean "{network}"?'
        raise refuse("the subnet has host bits set", allowed="host bits of zero", hint=hint)
    if network.prefixlen < 8:
        raise refuse("the subnet is too large", allowed="a prefix of /8 or longer")
    for taken, what in _NOT_FOR_HOSTS.items():
        if network.overlaps(taken):
            message = f"the subnet overlaps {taken}, which is {what}"
            raise refuse(message, allowed="private ranges: 10/8, 172.16/12, 192.168/16, 198.18/15")
    return network


_NOT_FOR_HOSTS = {
    IPv4Network("0.0.0.0/8"): "for a host that has no address yet",
    IPv4Network("127.0.0.0/8"): "loopback",
    IPv4Network("169.254.0.0/16"): "link-local",
    IPv4Network("224.0.0.0/4"): "multicast",
    IPv4Network("240.0.0.0/4"): "reserved",
}


def _kind(title: str) -> WithJsonSchema:
    """What docs/scenario.md calls the type."""
    return WithJsonSchema({"type": "string", "title": title})


ScenarioName = Annotated[str, AfterValidator(_scenario), _kind("name")]
NetworkName = Annotated[str, AfterValidator(_name), _kind("network's name")]
ProcessName = Annotated[str, AfterValidator(_name), _kind("process's name")]
CheckId = Annotated[str, AfterValidator(_name), _kind("name")]
HostName = Annotated[str, AfterValidator(_host), _kind("host's name")]
GroupName = Annotated[str, AfterValidator(_group), _kind("group's name")]
EnvironmentName = Annotated[str, AfterValidator(_environment), _kind("variable's name")]
ModuleName = Annotated[str, AfterValidator(_module), _kind("module's name")]
User = Annotated[str, AfterValidator(_user), _kind("user")]
ImageName = Annotated[str, AfterValidator(_image), _kind("image's name")]

InterfaceName = Annotated[str, PlainValidator(_interface), _kind("interface name")]
Directory = Annotated[str, PlainValidator(_directory), _kind("absolute path")]
Ip = Annotated[IPv4Address, PlainValidator(ipv4), PlainSerializer(str), _kind("IPv4 address")]
Subnet = Annotated[
    IPv4Network, PlainValidator(_subnet), PlainSerializer(str), _kind("IPv4 network")
]
