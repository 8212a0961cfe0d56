"""Arguments that are moved, described or filled in keep the names of their tuples: a kernel reads them by name."""

from typing import NamedTuple

import numpy as np
import pytest

import mimw
from mimw.ir.tuples import like
from mimw.runtime.host import HostArray
from mimw.testing.machines import with_arrays


class Part(NamedTuple):
    array: object
    step: int


@pytest.mark.parametrize("value, items, expected", [((4, 8), (1, 2), (1, 2)), ([4, 8], (1, 2), [1, 2]), ((), (), ()),
                                                    (Part(4, 8), (1, 2), Part(1, 2))])
def test_like(value, items, expected):
    made = like(value, iter(items))
    assert made == expected and type(made) is type(value)


def test_arrays_on_their_way_to_a_gpu_keep_the_tuples_around_them():
    array = np.zeros((8, 16), np.float32)

    def move(one):
        assert one is array
        return HostArray(one.copy())

    moved = with_arrays((Part(array, 16), 3, None), move)
    assert moved[0].step == 16 and moved[0].array.shape == (8, 16) and moved[1:] == (3, None)
    described = with_arrays(Part(mimw.TensorDescriptor.from_tensor(array, [8, 16]), 1), move).array
    assert type(described) is mimw.TensorDescriptor and described.shape == [8, 16] and described.block_shape == [8, 16]
