"""Memory for large contents is used again when no tensor is in it, and not before."""

import gc

import torch

from fedtest.comm.memory import Memory

ELEMENTS = 1 << 20


def test_memory_is_used_again_when_every_tensor_in_it_is_gone() -> None:
    memory = Memory()
    first = memory.empty(ELEMENTS, torch.float32)
    place = first.data_ptr()
    view = first.view(1024, 1024)[3]
    array = view.numpy()
    del first, view
    gc.collect()
    assert memory.empty(ELEMENTS, torch.float32).data_ptr() != place
    del array
    gc.collect()
    again = {memory.empty(ELEMENTS // 2, torch.float64).data_ptr() for _ in range(4)}
    assert place in again


def test_a_large_piece_is_not_used_for_a_small_content_and_still_kept() -> None:
    memory = Memory()
    place = memory.empty(8 * ELEMENTS, torch.float32).data_ptr()
    assert memory.empty(ELEMENTS, torch.float32).data_ptr() != place
    assert memory.empty(8 * ELEMENTS, torch.float32).data_ptr() == place


def test_after_the_close_nothing_is_kept() -> None:
    memory = Memory()
    held = memory.empty(ELEMENTS, torch.float32)
    memory.empty(ELEMENTS, torch.float32)
    memory.close()
    del held
    assert not memory._kept
