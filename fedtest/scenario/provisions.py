"""What hosts are given: files, directories of this machine, settings of the kernel, limits."""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from fedtest.local_files import CannotCopy, files_at, is_directory
from fedtest.scenario.base import Part, short
from fedtest.scenario.names import Directory, EnvironmentName, User, plain_path
from fedtest.scenario.processes import Text
from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import Size, format_size

LEAST_MEMORY = 16 * 1000**2
"""Bytes that a host needs for itself, and a shell."""
LEAST_TMPFS = 64 * 1024
_KERNELS = ("proc", "sys", "dev")
_ENGINES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
_SYSCTL = re.compile(r"(?:net(?:\.[A-Za-z0-9_@-]+)+|kernel\.(?:shm\w+|msg\w+|sem)|fs\.mqueue\.\w+)")
_SYSCTLS = "net.*, kernel.shm*, kernel.msg*, kernel.sem and fs.mqueue.*"


def _local(value: str, info: ValidationInfo) -> str:
    """A path of this machine, absolute."""
    base = (info.context or {}).get("base") or ""
    return os.path.abspath(Path(base) / value)  # noqa: PTH100 - folds `..`


LocalPath = Annotated[
    str,
    Field(min_length=1, max_length=1000),
    AfterValidator(_local),
    WithJsonSchema({"type": "string", "title": "path here"}),
]


def _place(value: Any) -> str:
    allowed = "an absolute path in the host, like /etc/app/config.ini"
    path = plain_path(value, "not a path that a file can be put at", allowed)
    if path.parts[1] in _KERNELS:
        raise refuse("the kernel's, not a place for files", allowed=allowed)
    if str(path) in _ENGINES:
        raise refuse("a file that the testbed writes itself", allowed="any other file")
    return str(path)


def _mode(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch("0[0-7]{3}", value):
        return value
    number = type(value) is int and re.fullmatch("[0-7]{3}", str(value))
    hint = f'in quotes it is one: "0{value}"' if number else ""
    raise refuse("not a file's mode", allowed='a string of four octal digits, like "0644"',
                 hint=hint)  # fmt: skip


def _sysctl(value: str) -> str:
    if len(value) > 200 or not _SYSCTL.fullmatch(value):
        raise refuse(
            "not a setting that a host has for itself", allowed=f"those of namespaces: {_SYSCTLS}"
        )
    return value


def _setting(value: Any) -> str:
    allowed = "a number or a string"
    if type(value) is int:
        return str(value)
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        raise refuse("not a setting's value", allowed=allowed)
    if not value.isprintable():
        raise refuse("a setting's value of more than one line", allowed=allowed)
    return value


FilePlace = Annotated[str, AfterValidator(_place),
                      WithJsonSchema({"type": "string", "title": "path"})]  # fmt: skip
Mode = Annotated[str, PlainValidator(_mode), PlainSerializer(str),
                 WithJsonSchema({"type": "string", "title": "mode"})]  # fmt: skip
SysctlName = Annotated[str, AfterValidator(_sysctl),
                       WithJsonSchema({"type": "string", "title": "setting's name"})]  # fmt: skip
SysctlValue = Annotated[
    str,
    PlainValidator(_setting),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "title": "string or number"}),
]


class FileIn(Part):
    """A file that is put into a host before any process starts. A string is short for `content`.

    Directories on the way to it are made if they are not there, as root's. What is there after
    that is read back; a host that is restarted keeps it. Not at or below a `mounts`, `tmpfs` or
    `data` directory.
    """

    content: Text | None = Field(default=None, description="What is in it. Templates.")
    source: LocalPath | None = Field(
        default=None,
        alias="from",
        description="A file or directory to copy, as it is; relative to the scenario's file. At "
        "most 100 MB and 10000 files, no links. Exactly one of `content` and `from`.",
    )
    mode: Mode | None = Field(
        default=None,
        description="The mode of each file.",
        json_schema_extra={"default": '`"0644"`; of what is copied, its own'},
    )
    owner: User | None = Field(
        default=None,
        description="Whose it is: a name that the host knows or a number, also `user:group`.",
        json_schema_extra={"default": "a plain user's (`1000:1000`)"},
    )

    @model_validator(mode="after")
    def _one_source(self, info: ValidationInfo) -> Self:
        if (self.content is None) == (self.source is None):
            found = "neither content nor from" if self.content is None else "both content and from"
            raise refuse(found, allowed="exactly one of content and from")
        if self.source is not None and (info.context or {}).get("look"):
            try:
                files_at(self.source)
            except CannotCopy as error:
                raise refuse(str(error), allowed="regular files and directories that are there; "
                             "more than that by mounts") from error  # fmt: skip
        return self


class MountIn(Part):
    """A directory of this machine, as it is and goes on changing. A string is short for `from`.

    That the host sees this very directory is looked at; where the engine is on another machine,
    or in a root of its own, it does not, and the run is invalid. `files` copies instead.
    """

    source: LocalPath = Field(
        alias="from", description="The directory here; relative to the scenario's file."
    )
    write: bool = Field(
        default=False,
        description="Whether hosts may write there; whether their users may, its modes say.",
    )

    @model_validator(mode="after")
    def _there(self, info: ValidationInfo) -> Self:
        if (info.context or {}).get("look") and not is_directory(self.source):
            raise refuse(f"no such directory: {self.source}", allowed="a directory that is there")
        return self


class SecretSource(Part):
    """A value that appears nowhere but where it is used: `${{ secrets.NAME }}`."""

    env: EnvironmentName | None = Field(
        default=None, description="A variable in the environment of who runs fedtest."
    )
    file: LocalPath | None = Field(
        default=None,
        description="A file here, relative to the scenario's file; a line break at its end is "
        "left out. Exactly one of `env` and `file`.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.env is None) == (self.file is None):
            found = "neither env nor file" if self.env is None else "both env and file"
            raise refuse(found, allowed="exactly one of env and file")
        return self


def _secret(value: str) -> str:
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_-]{0,63}", value):
        allowed = "letters, digits, hyphens and underscores, a letter first"
        raise refuse("not a secret's name", allowed=allowed)
    return value


SecretName = Annotated[str, AfterValidator(_secret),
                       WithJsonSchema({"type": "string", "title": "secret's name"})]  # fmt: skip


def _memory(value: int) -> int:
    if value < LEAST_MEMORY:
        raise refuse(
            "too little memory for a host", allowed=f"at least {format_size(LEAST_MEMORY)}"
        )
    return value


def _tmpfs(value: int) -> int:
    if value < LEAST_TMPFS:
        raise refuse("too small a file system", allowed=f"at least {format_size(LEAST_TMPFS)}")
    return value


Memory = Annotated[Size, AfterValidator(_memory)]
TmpfsSize = Annotated[Size, AfterValidator(_tmpfs)]
Env = dict[EnvironmentName, Text]
Files = dict[FilePlace, Annotated[FileIn, short("content")]]
Mounts = dict[Directory, Annotated[MountIn, short("from")]]
Tmpfs = dict[Directory, TmpfsSize]
Sysctls = dict[SysctlName, SysctlValue]
