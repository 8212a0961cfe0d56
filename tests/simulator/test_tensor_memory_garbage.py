"""Fresh tensor memory holds garbage wherever a buffer can look, and costs nothing where none can."""

import numpy as np

from mimw.ir import Place, Site
from mimw.ir.types import Buffer, Scalar
from mimw.simulator.memory.tensor_memory import TensorMemory


def array(memory, rows, columns, offset=0):
    place = Place(offset, columns, columns, 1)
    return memory.array("acc", Buffer(Scalar("fp32"), (rows, columns), 1, "tmem"), place, Site("x.py", 1))


def test_every_lane_of_a_buffer_holds_garbage():
    memory = TensorMemory.of_columns(128)
    low, high = array(memory, 64, 32), array(memory, 128, 64, offset=64)
    assert np.isnan(low.data).all() and np.isnan(high.data).all() and not low.marks.any()
    assert memory.lanes == [128], "nobody looks at the rest"


def test_a_later_array_spoils_nothing_that_is_written():
    memory = TensorMemory.of_columns(64)
    low = array(memory, 64, 32)
    low.write(np.ones((64, 32), np.float32))
    high = array(memory, 128, 32)
    assert (high.data[0, :64] == 1).all() and np.isnan(high.data[0, 64:]).all()
