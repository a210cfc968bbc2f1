"""What is taken out of a host before it is removed."""

from typing import Annotated, Any

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from fedtest.scenario.base import Part
from fedtest.scenario.names import plain_path

MOST_FILES = 100


def _path(value: Any) -> str:
    allowed = "an absolute path in the host, like /tmp/out/metrics.jsonl"
    return str(plain_path(value, "not a path of a file", allowed))


CollectedPath = Annotated[
    str,
    PlainValidator(_path),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "title": "path"}),
]


class Collected(Part):
    """A file that a host leaves. A string is short for its `path`.

    When the processes have ended, it is copied to `files/HOST/PATH` in the run's directory,
    whatever the verdict. Links lead where they lead in the host; secrets in it are masked. One
    that is not there, is no regular file or makes the files of its host more than 16 MiB fails
    the run.
    """

    path: CollectedPath = Field(description="Its path, absolute.")
    optional: bool = Field(
        default=False, description="It may be missing: what is not there is then left out."
    )
