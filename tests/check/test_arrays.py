"""Arrays are put back as they were, large ones block by block: views of other types, zeros, blocks that have changed or not."""

import ml_dtypes
import numpy as np
import pytest

from mimw.simulator.memory_model.shadow import Shadow
from mimw.tools.search import arrays
from mimw.tools.search.arrays import Arrays, Blocks


@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16])
@pytest.mark.parametrize("cut", [slice(None), slice(0, 100), slice(None, None, 2)])
def test_contents_come_back(monkeypatch, dtype, cut):
    monkeypatch.setattr(arrays, "BLOCK", 64)
    array = np.zeros(300, dtype)[cut]
    array[3:9] = 5
    before = array.copy()
    saved = Arrays([array])
    assert isinstance(saved.copies[0][1], Blocks) == (array.nbytes > 64 and cut.step is None)
    for _ in range(2):
        array[2:50:7] = 9
        array[-1] = 1
        array[5] = 0
        saved.restore()
        assert (array.view(np.uint8) == before.view(np.uint8)).all() if cut.step is None else (array == before).all()


def test_what_holds_zeros_is_not_kept(monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK", 64)
    array = np.zeros((10, 32), np.int8)
    array[3] = 1
    assert [kept is not None for kept in Arrays([array]).copies[0][1].kept] == [False, True, False, False, False]


def test_cells_of_a_large_memory_are_split_where_somebody_was():
    memory = np.zeros(1 << 20, np.uint8)
    shadow = Shadow(memory, lambda: None)
    wide = shadow.view(memory[3 << 17:(3 << 17) + 4096])
    wide.cells[...] = 7
    far = shadow.at(np.array([(1 << 20) - 64]), 64)
    shadow.cells[far] = 8
    shadow.view(memory[12:16])
    assert shadow.grain == 4
    expected = np.zeros(1 << 18, np.int32)
    expected[3 << 15:(3 << 15) + 1024], expected[-16:] = 7, 8
    assert (shadow.cells == expected).all()
    memory = np.zeros(200_003, np.uint8)
    shadow = Shadow(memory, lambda: None)
    shadow.view(memory[:199_998].reshape(-1, 6)).cells[...] = 3
    shadow.view(memory[200_001:]).cells[...] = 4
    assert shadow.grain in (1, 2, 3) and (np.repeat(shadow.cells, shadow.grain)[:199_998] == 3).all()


def test_of_a_check_autograd_knows_nothing():
    """A parameter, which no one may write in place, and what a derivative needs later."""
    torch = pytest.importorskip("torch", reason="autograd is torch's")
    x, y = torch.ones(32, requires_grad=True), torch.zeros(32)
    needed = x * y
    saved = Arrays([x, y])
    y.data[3], x.data[5] = 7, 8
    saved.restore()
    assert not y.any() and x.eq(1).all() and y._version == x._version == 0
    needed.sum().backward()
