"""Images and data volumes, on a real engine."""

import threading
import uuid
from http import HTTPStatus

import pytest
from docker.errors import APIError

from fedtest.data import mnist
from fedtest.engine.base import RunTag
from fedtest.engine.docker import context, images, superseded, volumes
from fedtest.engine.docker.client import DockerClient
from fedtest.engine.docker.files import read_file, unstarted
from fedtest.engine.docker.labels import RUN, of_run
from fedtest.engine.owner import Owner
from fedtest.errors import DataError, ImageError
from fedtest.plan import BuildSpec, ImagePlan

pytestmark = pytest.mark.docker

NODE = ImagePlan()
MARKS = of_run(RunTag(uuid.uuid4().hex[:8], "images", Owner.me()))


@pytest.fixture(scope="module")
def client():
    client = DockerClient()
    yield client
    client.close()


@pytest.fixture(scope="module")
def node(client):
    return images.ensure_image(client, NODE, progress=print, labels=MARKS)


@pytest.fixture
def labels():
    return {RUN: f"test-{uuid.uuid4().hex[:8]}"}


@pytest.fixture
def made(client):
    """Tags to remove in the end."""
    tags = []
    yield tags
    for tag in tags:
        client.api.remove_image(tag)


@pytest.fixture
def mark(client):
    """A label's value; the images that a build which failed left with it are removed."""
    value = uuid.uuid4().hex
    yield value
    for image in client.api.images(filters={"label": f"{RUN}={value}", "dangling": True}):
        remove(client, image["Id"])


def remove(client, image):
    """By force, and again while the container of a build that was left is still going."""
    wait = threading.Event()
    for _ in range(300):
        try:
            return client.api.remove_image(image, force=True)
        except APIError as error:
            if error.response.status_code != HTTPStatus.CONFLICT:
                raise
        wait.wait(0.1)
    pytest.fail(f"image {image} is still in use")


def containers(client, labels):
    wanted = [f"{key}={value}" for key, value in labels.items()]
    return client.api.containers(all=True, filters={"label": wanted})


def dockerfile(tmp_path, text):
    (tmp_path / "Dockerfile").write_text(text)
    return ImagePlan(build=BuildSpec(str(tmp_path), str(tmp_path / "Dockerfile")))


def test_the_second_time_nothing_is_built(client, node):
    assert images.ensure_image(client, NODE, progress=pytest.fail, labels=MARKS) == node


def test_the_node_image_tells_its_versions(client, node):
    found = images.image_versions(client, node)
    assert {"python3-torch", "python3-torchvision", "iproute2"} <= set(found)


def test_a_change_of_code_builds_but_one_step(client, node, labels, made, monkeypatch):
    entries = list(context._node_entries())
    changed = [*entries, ("fedtest/ring/new.py", uuid.uuid4().hex.encode())]
    monkeypatch.setattr(context, "_node_entries", lambda: iter(changed))
    told = []
    tag = images.ensure_image(client, NODE, progress=told.append, labels=labels)
    made.append(tag)
    assert tag != node
    layers = [client.api.inspect_image(name)["RootFS"]["Layers"] for name in (node, tag)]
    assert layers[0][:-1] == layers[1][:-1]
    assert containers(client, labels) == []


@pytest.mark.usefixtures("node")
def test_an_image_on_top_of_the_node_image(client, labels, made, tmp_path):
    plan = dockerfile(tmp_path, "ARG FEDTEST_NODE\nFROM ${FEDTEST_NODE}\nCOPY x /x\n")
    (tmp_path / "x").write_text(uuid.uuid4().hex)
    tag = images.ensure_image(client, plan, progress=print, labels=MARKS)
    made.append(tag)
    assert images.ensure_image(client, plan, progress=pytest.fail, labels=MARKS) == tag
    with unstarted(client, tag, labels) as container:
        assert read_file(client, container, "/x") == (tmp_path / "x").read_bytes()
        with pytest.raises(FileNotFoundError):
            read_file(client, container, "/y")
    assert containers(client, labels) == []


@pytest.fixture
def directory(client, tmp_path):
    """Builds from directories of this test; what is left of it is removed."""
    tags = []

    def build(name, told):
        (tmp_path / name).mkdir(exist_ok=True)
        # Another one each time, on top of an image that holds nothing.
        plan = dockerfile(tmp_path / name, f"FROM scratch\nLABEL test={uuid.uuid4().hex}\n")
        tags.append(images.ensure_image(client, plan, progress=told, labels=MARKS))
        return tags[-1]

    yield build
    for tag in tags:
        if images.image_id(client, tag):
            client.api.remove_image(tag)


def test_an_earlier_build_of_a_directory_is_removed(client, directory, monkeypatch):
    monkeypatch.setattr(superseded, "LATELY", 0)
    told = []
    first, other, second = (directory(name, told.append) for name in "aba")
    assert images.image_id(client, first) is None
    assert f"removed {first}, which was built from it earlier" in told
    # Another directory's is not touched.
    assert images.image_id(client, other)
    assert images.image_id(client, second)


def test_one_that_is_in_use_or_was_lately_is_not(client, directory, labels, monkeypatch):
    first, second = directory("a", print), directory("a", print)
    assert images.image_id(client, first)
    monkeypatch.setattr(superseded, "LATELY", 0)
    with unstarted(client, first, labels):
        directory("a", print)
        assert images.image_id(client, first)
        assert images.image_id(client, second) is None


def test_a_failed_build_shows_its_end_and_leaves_no_container(client, mark, tmp_path):
    plan = dockerfile(
        tmp_path,
        f"ARG FEDTEST_NODE\nFROM ${{FEDTEST_NODE}}\nLABEL {RUN}={mark}\nRUN echo why; exit 7\n",
    )
    with pytest.raises(ImageError, match="why") as caught:
        images.ensure_image(client, plan, progress=print, labels=MARKS)
    assert "7" in caught.value.message
    assert containers(client, {RUN: mark}) == []


def test_leaving_a_build_stops_it(client, mark, tmp_path):
    plan = dockerfile(
        tmp_path,
        f"ARG FEDTEST_NODE\nFROM ${{FEDTEST_NODE}}\nLABEL {RUN}={mark}\nRUN sleep 60\n",
    )

    def leave(line):
        if "sleep" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        images.ensure_image(client, plan, progress=leave, labels=MARKS)
    wait = threading.Event()
    for _ in range(100):
        if not containers(client, {RUN: mark}):
            return
        wait.wait(0.1)
    pytest.fail("the build's container is still there")


def test_an_image_that_is_nowhere(client):
    name = "registry.invalid/no/such:image"
    with pytest.raises(ImageError, match="could not be pulled"):
        images.ensure_image(client, ImagePlan(name=name), progress=print, labels=MARKS)


def test_a_volume_is_filled_once_and_again_if_it_is_not_whole(
    client, node, labels, tmp_path, monkeypatch
):
    monkeypatch.setattr(mnist, "DIGEST", uuid.uuid4().hex[:12])
    monkeypatch.setattr(mnist, "MD5", dict.fromkeys(mnist.MD5, ""))
    raw = mnist.raw(tmp_path)
    raw.mkdir(parents=True)
    for name in mnist.MD5:
        (raw / name).write_text(name)
    asked = []

    def provision(_):
        asked.append(1)
        return mnist.Provisioned(tmp_path, None)

    monkeypatch.setattr(mnist, "provision", provision)
    name = f"fedtest-mnist-{mnist.DIGEST}"
    # What a killed run leaves: the volume, without the marker.
    client.api.create_volume(name, labels={volumes.LABEL: "mnist"})
    try:
        for _ in range(2):
            assert name == volumes.ensure_volume(
                client, "mnist", image=node, labels=labels, progress=print
            )
        assert len(asked) == 1
        with unstarted(client, node, labels, {name: "/data"}) as container:
            path = "/data/MNIST/raw/t10k-labels-idx1-ubyte"
            assert read_file(client, container, path) == b"t10k-labels-idx1-ubyte"
        assert containers(client, labels) == []
    finally:
        client.api.remove_volume(name)


def test_a_data_set_nobody_knows(client, node, labels):
    with pytest.raises(DataError, match="imagenet"):
        volumes.ensure_volume(client, "imagenet", image=node, labels=labels, progress=print)
