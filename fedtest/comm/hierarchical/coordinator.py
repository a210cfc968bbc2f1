"""Coordinator: which rank stands for which clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.comm.errors import ArgumentError, IdError
from fedtest.comm.hierarchical.ids import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MODES = ("LOCAL", "GLOBAL")


class Coordinator:
    """Maps the ids of clients to ranks, in the order of `setup_dict`: rank -> how many clients.

    `mode`   LOCAL: a rank is told ids that count from 0 among its own clients;
             GLOBAL: it is told the ids as they are
    `first`  the id of the first client: 0 but for a middle server whose server
             above has the mode GLOBAL
    `tagged` ranks whose messages begin with the ids that they are from
    """

    def __init__(
        self,
        setup_dict: Mapping[int, int],
        mode: str = "LOCAL",
        *,
        first: int = 0,
        tagged: Iterable[int] = (),
    ) -> None:
        if mode not in MODES:
            raise ArgumentError(f"mode={mode!r}: LOCAL and GLOBAL can be")
        if (
            type(first) is not int
            or first < 0
            or any(type(number) is not int or number < 0 for number in setup_dict.values())
        ):
            raise ArgumentError(f"clients are 0 or more, their ids as well: {setup_dict}, {first}")
        self.map = dict(setup_dict)
        self.mode = mode
        self.first = first
        self.tagged = frozenset(tagged)
        self._begins: dict[int, int] = {}
        at = first
        for rank, number in self.map.items():
            self._begins[rank] = at
            at += number

    @property
    def total(self) -> int:
        """How many clients there are."""
        return sum(self.map.values())

    def map_id(self, id: int) -> tuple[int, int]:  # noqa: A002 - FedLab's name
        """The rank that stands for client `id`, and the id that it is told. Raises IdError."""
        wanted = whole(id)
        for rank, number in self.map.items():
            local = wanted - self._begins[rank]
            if 0 <= local < number:
                return rank, local if self.mode == "LOCAL" else wanted
        raise IdError(f"there is no client {id}: {self._known()}")

    def map_id_list(self, id_list: Iterable[int]) -> dict[int, list[int]]:
        """Of each rank that stands for some of `id_list`, the ids that it is told, in order."""
        found: dict[int, list[int]] = {}
        for each in id_list:
            rank, told = self.map_id(each)
            found.setdefault(rank, []).append(told)
        return found

    def ids(self, rank: int | None = None) -> range:
        """The ids of the clients that `rank` stands for, or of all. Raises IdError."""
        if rank is None:
            return range(self.first, self.first + self.total)
        if rank not in self.map:
            raise IdError(f"rank {rank} stands for no clients: {self._known()}")
        return range(self._begins[rank], self._begins[rank] + self.map[rank])

    def id_of(self, rank: int, told: int) -> int:
        """The id of the client that `rank` knows as `told`. Raises IdError."""
        ids = self.ids(rank)
        mine = whole(told) + (ids.start if self.mode == "LOCAL" else 0)
        if mine not in ids:
            raise IdError(f"rank {rank} has no client {told}: {self._known()}")
        return mine

    def switch(self) -> None:
        """Change to the other mode."""
        self.mode = MODES[1 - MODES.index(self.mode)]

    def __call__(self, info: int | list[int]) -> tuple[int, int] | dict[int, list[int]]:
        """`map_id` of a number, `map_id_list` of a list."""
        return self.map_id(info) if isinstance(info, int) else self.map_id_list(info)

    def __str__(self) -> str:
        return f"{self._known()}, mode {self.mode}"

    def _known(self) -> str:
        ranks = []
        for rank in self.map:
            ids = self.ids(rank)
            ranks.append(f"rank {rank}: {f'{ids.start} to {ids.stop - 1}' if ids else 'none'}")
        return f"clients of {', '.join(ranks) or 'no rank'}"
