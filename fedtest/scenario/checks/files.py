"""`files`: what there is in a host when the processes have ended."""

import re
from typing import Annotated, Any, Self

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from fedtest.scenario.base import Part, exactly_one
from fedtest.scenario.names import GroupName, HostName
from fedtest.scenario.patterns import Pattern
from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import Size, format_size


def _path(value: Any) -> str:
    allowed = "an absolute path in the host, like /tmp/model.pt"
    if not isinstance(value, str) or not value.startswith("/") or len(value) > 1000:
        raise refuse("not a path of a file", allowed=allowed)
    if "\0" in value or ".." in value.split("/"):
        raise refuse("not a path of a file", allowed=allowed)
    return value


def _sha256(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
        raise refuse("not a SHA-256", allowed="64 hexadecimal digits, in small letters")
    return value


FilePath = Annotated[
    str,
    PlainValidator(_path),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "title": "path"}),
]
Sha256 = Annotated[
    str,
    PlainValidator(_sha256),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "title": "SHA-256"}),
]


class FilesCheck(Part):
    """A file in hosts. Links lead where they lead in the host; every file can be looked at."""

    group: GroupName | None = Field(default=None, description="Each member of this group.")
    host: HostName | None = Field(default=None, description="This host. Either `group` or `host`.")
    path: FilePath = Field(description="Its path, absolute.")
    exists: bool = Field(
        default=True, description="Whether there is a file at all; a directory is none."
    )
    min: Size | None = Field(default=None, description="Its size is at least that.")
    max: Size | None = Field(default=None, description="Its size is at most that.")
    match: Pattern | None = Field(
        default=None,
        description="A regular expression that its content matches somewhere: the first 256 KiB "
        "are searched. `^` and `$` are the ends of lines with `(?m)`, else of the whole.",
    )
    sha256: Sha256 | None = Field(
        default=None, description="The SHA-256 of its content, of at most 1 GiB."
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        exactly_one(self, "group", "host")
        said = [self.min, self.max, self.match, self.sha256]
        if not self.exists and said != [None] * len(said):
            raise refuse("exists is false, and something is said of the file", allowed="either")
        if self.min is not None and self.max is not None and self.min > self.max:
            message = f"min is {format_size(self.min)}, max is {format_size(self.max)}"
            raise refuse(f"nothing can hold: {message}", allowed="a min that is at most max")
        return self
