"""Several ranks on one real GPU: a symmetric heap and a table for each, and a launch at all of them side by side.

Input: a number of ranks. Output: tables and symmetric arrays in the memory of one CUDA device. An example:

    heaps = Heaps(2)
    x = heaps.symmetric(64, torch.float32)                  [x of rank 0, x of rank 1]
    heaps.launch(kernel, (4, ), lambda rank, world: (x[rank], world, 64))

A rank is a heap and a table to a kernel, so this shows that signals, barriers of ranks, addresses and scratch work as compiled;
what NVLink adds only two devices show. The grids of all ranks have to fit on the device at once.
"""

import numpy as np

from mimw.ir.world import ALIGNED, reserved, table


class Heaps:
    def __init__(self, ranks=2, size=1 << 20, scratch=1 << 20):
        import torch
        self.torch, self.used = torch, reserved(ranks, scratch)
        self.pads = reserved(ranks, 0)
        self.heaps = [torch.zeros(self.used + size, dtype=torch.uint8, device="cuda") for _ in range(ranks)]
        bases = [heap.data_ptr() for heap in self.heaps]
        if any(base % ALIGNED for base in bases):
            raise RuntimeError(f"heaps at {bases}, which are no multiples of {ALIGNED}")
        tables = [table(rank, bases, workspace=scratch) for rank in range(ranks)]
        self.tables = [torch.tensor(one, dtype=torch.int64, device="cuda") for one in tables]
        self.streams = [torch.cuda.Stream() for _ in range(ranks)]

    def symmetric(self, shape, dtype):
        """An array of zeros in each heap, at one offset."""
        shape = (shape, ) if isinstance(shape, int) else tuple(shape)
        start, size = -(-self.used // ALIGNED) * ALIGNED, int(np.prod(shape)) * dtype.itemsize
        self.used = start + size
        return [heap[start:start + size].view(dtype).view(shape) for heap in self.heaps]

    def launch(self, kernel, grid, arguments, **meta):
        """Launch at each rank with what `arguments(rank, table)` gives, and wait for all."""
        self.torch.cuda.synchronize()
        for rank, (world, stream) in enumerate(zip(self.tables, self.streams)):
            with self.torch.cuda.stream(stream):
                kernel[grid](*arguments(rank, world), **meta)
        self.torch.cuda.synchronize()

    def pads_are_zero(self):
        """Whether every signal pad is as it was."""
        return not any(heap[:self.pads].any() for heap in self.heaps)
