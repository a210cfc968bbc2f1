"""The two rings over real Gloo: the right mean, the same bits, in the order of the text."""

import json
from pathlib import Path

import exchange_rank
import numpy as np
import pytest
import torch
from ranks import Start, finish

SCRIPT = str(Path(exchange_rank.__file__))


def expected_moves(rank: int, size: int) -> list[str]:
    """The order of sends and receives that the algorithm prescribes, written out rank by rank."""
    if size == 1:
        return []
    last = size - 1
    if rank == 0:
        own = ["send 1", f"recv {last}"]  # starts the first ring, gets its result
        return own if size == 2 else [*own, "send 1"]  # and starts the second
    if rank == last:
        return [f"recv {last - 1}", "send 0"]  # takes no part in the second ring
    first = [f"recv {rank - 1}", f"send {rank + 1}"]
    second = [f"recv {rank - 1}"] if rank == last - 1 else first
    return first + second


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8])
def test_every_rank_gets_the_mean_and_the_same_bits(start: Start, port: int, size: int) -> None:
    status, out, err = finish([start([SCRIPT, str(size), str(port)])])[0]
    assert status == 0, err
    results = json.loads(out)
    assert len(results) == size

    for rank, result in enumerate(results):
        assert result["averages"] == results[0]["averages"]
        assert result["counts"] == [sum(range(size)), size * 2**40 + sum(range(size))]
        assert result["moves"] == expected_moves(rank, size)

    for dtype, kind, tolerance in (
        (torch.float32, np.float32, 1e-5),
        (torch.float64, np.float64, 1e-12),
    ):
        for length in exchange_rank.SIZES:
            raw = bytes.fromhex(results[0]["averages"][f"{dtype} {length}"])
            got = torch.from_numpy(np.frombuffer(raw, kind).copy())
            parts = [exchange_rank.values(rank, length, dtype) for rank in range(size)]
            # One process adding in the ring's order has the same bits ...
            total = parts[0].clone()
            for part in parts[1:]:
                total = total + part
            assert torch.equal(got, total / size)
            # ... and the mean in double precision is within rounding.
            mean = torch.stack(parts).double().mean(0)
            scale = torch.stack(parts).double().abs().sum(0)
            assert bool(((got.double() - mean).abs() <= tolerance * scale).all())
