"""Packages without a network: what they hold, what they refuse, and what coercion loses."""

import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtest.comm import (
    DTYPES,
    CoercionError,
    CoercionWarning,
    DtypeError,
    MessageCode,
    Package,
    PackageError,
    wire,
)
from fedtest.comm.coercion import can_lose

shapes = st.lists(st.integers(0, 4), max_size=5).map(tuple)
dtypes = st.sampled_from(DTYPES)
relaxed = settings(deadline=None, max_examples=100)


def tensor_of(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return (torch.arange(math.prod(shape)) % 100).to(dtype).view(shape)


@relaxed
@given(st.lists(shapes, max_size=8), dtypes, st.sampled_from(MessageCode))
def test_what_goes_in_comes_out(
    found: list[tuple[int, ...]], dtype: torch.dtype, code: MessageCode
) -> None:
    tensors = [tensor_of(shape, dtype) for shape in found]
    package = Package(code, tensors)
    sender, receiver, length, got, kind = Package.parse_header(package.header)
    assert (sender, receiver, length, got) == (-1, -1, len(package.slices), code)
    if not tensors:
        assert (package.content, package.dtype, kind) == (None, None, -1)
        return
    assert DTYPES[kind] is dtype
    assert package.slices == [number for t in tensors for number in (t.numel(), t.dim(), *t.shape)]
    parsed = Package.parse_content(package.slices, package.content)
    for got_tensor, tensor in zip(parsed, tensors, strict=True):
        assert got_tensor.dtype is dtype
        assert torch.equal(got_tensor, tensor)


@relaxed
@given(st.lists(shapes, min_size=1, max_size=6), st.integers(0, 6))
def test_however_a_package_is_made_it_is_the_same(found: list[tuple[int, ...]], cut: int) -> None:
    tensors = [tensor_of(shape, torch.float32) for shape in found]
    whole = Package(MessageCode.SetUp, tensors)
    single = Package(MessageCode.SetUp)
    for tensor in tensors:
        single.append_tensor(tensor)
    mixed = Package(MessageCode.SetUp, tuple(tensors[:cut]))
    mixed.append_tensor_list(tensors[cut:])
    for other in (single, mixed):
        assert other.slices == whole.slices
        assert torch.equal(other.header, whole.header)
        assert torch.equal(other.content, whole.content)


def test_a_package_of_one_tensor_has_the_header_and_slices_of_the_wire() -> None:
    package = Package(content=torch.zeros(2, 5))
    assert package.header.dtype is torch.int32
    assert package.header.tolist() == [-1, -1, 4, 0, 5]
    assert package.slices == [10, 2, 2, 5]
    assert package.content.shape == (10,)
    assert [code.value for code in MessageCode] == list(range(7))


def test_a_package_has_its_own_memory() -> None:
    tensor = torch.ones(3, requires_grad=True)
    package = Package(content=tensor)
    package.content[0] = 7
    assert tensor.tolist() == [1, 1, 1]
    assert tensor.requires_grad
    assert not package.content.requires_grad
    with torch.no_grad():
        tensor[1] = 8
    assert package.content.tolist() == [7, 1, 1]


def test_the_first_dtype_wins() -> None:
    package = Package(content=[torch.tensor([1.5]), torch.tensor([2], dtype=torch.int8)])
    assert package.dtype is torch.float32
    assert package.content.tolist() == [1.5, 2.0]
    package.to(torch.float64)
    assert package.content.dtype is package.dtype is torch.float64
    assert package.header[4] == 6
    assert Package(content=torch.zeros(1, dtype=torch.float64)).header[4] == 6


@pytest.mark.parametrize("code", [7, -1, "Exit", 1.0, True])
def test_what_is_no_message_code_is_refused(code: object) -> None:
    with pytest.raises(PackageError, match="is no message code; those are 0 ParameterRequest, 1 "):
        Package(code)
    assert Package(4).header[3] == 4


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.bfloat16, torch.complex64, torch.complex128]
)
def test_other_dtypes_are_refused_with_those_that_can_be(dtype: torch.dtype) -> None:
    with pytest.raises(DtypeError, match="int8, int16, int32, int64, float16, float32, float64"):
        Package(content=torch.zeros(1, dtype=dtype))


class Array:
    __array_interface__: dict[str, object] = {}  # noqa: RUF012


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("text", "not str"),
        (Array(), r"torch.from_numpy\(array\)"),
        ([torch.zeros(1), 1.0], r"content\[1\] must be a tensor, not float"),
        ({"w": torch.zeros(1)}, "not dict"),
        (torch.zeros(2, 2).to_sparse(), "a sparse_coo tensor"),
        (torch.zeros(1, device="meta"), "it has no values"),
        (torch.zeros([1] * 65), "65 dimensions"),
    ],
)
def test_what_cannot_be_sent_is_refused_in_words(content: object, says: str) -> None:
    package = Package()
    with pytest.raises(PackageError, match=says):
        Package(content=content)
    if isinstance(content, torch.Tensor):
        with pytest.raises(PackageError, match=says):
            package.append_tensor(content)
    else:
        with pytest.raises(PackageError):
            package.append_tensor(content)
    assert package.slices == []


@pytest.mark.filterwarnings("ignore")  # torch is about to give them up
def test_a_quantised_tensor_is_refused() -> None:
    with pytest.raises(PackageError, match="quantised"):
        Package(content=torch.quantize_per_tensor(torch.zeros(1), 1.0, 0, torch.qint8))


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ([0, 1, 3, 9, 5], "9 is no message code"),
        ([0, 1, 3, 0, 7], "7 is no dtype code"),
        ([0, 1, -3, 0, 5], "a length of slices of -3"),
        ([0, 1, 3, 0], r"shape \(5,\)"),
    ],
)
def test_a_header_that_cannot_begin_a_package_is_refused(header: list[int], says: str) -> None:
    with pytest.raises(PackageError, match=says):
        Package.parse_header(torch.tensor(header, dtype=torch.int32))


def test_slices_of_more_than_there_is_are_refused() -> None:
    with pytest.raises(PackageError, match="the slices are of 4 elements, there are 3"):
        Package.parse_content([4, 1, 4], torch.zeros(3))
    assert Package.parse_content([], None) == []


numbers = st.one_of(st.integers(-2, 6), st.integers(-(2**31), 2**31 - 1))


@relaxed
@given(st.lists(numbers, max_size=20))
def test_any_slices_are_either_refused_or_a_layout_that_adds_up(found: list[int]) -> None:
    try:
        layout = wire.check_slices(found)
    except PackageError:
        return
    assert layout.total == sum(layout.counts)
    for count, shape in zip(layout.counts, layout.shapes, strict=True):
        assert math.prod(shape) == count
    if layout.total < 1000:
        parts = wire.views(torch.zeros(layout.total), layout)
        assert [part.shape for part in parts] == [torch.Size(shape) for shape in layout.shapes]


@relaxed
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=5, max_size=5))
def test_any_header_is_either_refused_or_in_bounds(found: list[int]) -> None:
    try:
        _, _, length, code, kind = Package.parse_header(torch.tensor(found, dtype=torch.int32))
    except PackageError:
        return
    assert 0 <= length <= wire.MAX_SLICES
    assert isinstance(code, MessageCode)
    assert not length or 0 <= kind < len(DTYPES)


LOSSLESS = {
    (source, target)
    for source, targets in {
        torch.int8: DTYPES,
        torch.int16: [torch.int16, torch.int32, torch.int64, torch.float32, torch.float64],
        torch.int32: [torch.int32, torch.int64, torch.float64],
        torch.int64: [torch.int64],
        torch.float16: [torch.float16, torch.float32, torch.float64],
        torch.float32: [torch.float32, torch.float64],
        torch.float64: [torch.float64],
    }.items()
    for target in targets
}


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_a_coercion_that_can_lose_something_warns_once_or_is_refused(
    source: torch.dtype, target: torch.dtype
) -> None:
    content = [
        torch.ones(1, dtype=target),
        torch.ones(2, dtype=source),
        torch.ones(3, dtype=source),
    ]
    lossless = (source, target) in LOSSLESS
    assert can_lose(source, target) is not lossless
    if lossless:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert Package(content=content).content.tolist() == [1] * 6
            Package(content=content, strict=True)
        return
    with pytest.warns(CoercionWarning) as told:
        Package(content=content)
    assert len(told) == 1
    assert told[0].filename == __file__
    text = str(told[0].message)
    assert str(source).removeprefix("torch.") in text
    assert str(target).removeprefix("torch.") in text
    assert "none of 5 changed this time" in text
    with pytest.raises(CoercionError):
        Package(content=content, strict=True)


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        (torch.int64, torch.tensor([0.25, 2.0, -1.5]), "2 of 3 changed: 0.25 became 0, -1.5 "),
        (torch.float16, torch.tensor([2049]), "1 of 1 changed: 2049 became 2048.0"),
        (torch.int8, torch.tensor([300, 1]), "1 of 2 changed: 300 became 44"),
        (torch.float16, torch.tensor([1e6]), "1 of 1 changed: 1000000.0 became inf"),
        (torch.float32, torch.tensor([math.nan], dtype=torch.float64), "none of 1 changed"),
        (torch.float32, torch.full((9,), 2**24 + 1), "9 of 9 changed: 16777217 became 16777216.0"),
    ],
)  # fmt: skip
def test_what_was_lost_is_said(first: torch.dtype, then: torch.Tensor, says: str) -> None:
    package = Package(content=torch.zeros(1, dtype=first))
    with pytest.warns(
        CoercionWarning, match="values take the dtype of the package's first"
    ) as told:
        package.append_tensor(then)
    assert says in str(told[0].message)
    with pytest.warns(CoercionWarning):
        again = Package(content=[torch.zeros(1, dtype=first), then])
    assert torch.equal(again.content.nan_to_num(), package.content.nan_to_num())
