"""The memory of `mimw.ops.linear_cross_entropy` with gradients, buffer by buffer, without a GPU.

    python -m benchmarks.linear_cross_entropy_memory                                the shapes of benchmarks.linear_cross_entropy
    python -m benchmarks.linear_cross_entropy_memory 8192x4096x128256 --sums bf16   one of them, tokens x hidden x classes

The call runs on the CPU with tensors of the real sizes, planned for an H200, and launches nothing (a second time, as the first call
makes plans): what it allocates is what torch's allocator of the CPU tells the profiler. Printed are the buffers that were there
when there were most, and how much that is of the bytes of inputs and gradients, as benchmarks.linear_cross_entropy has it on a GPU.
For example:

    peak(8192, 4096, 128256, torch.bfloat16)        Peak(ratio=1.199, forward=1.199, buffers=[("weight", 1050673152), ..])
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch

import torch

from mimw import ops
from mimw.ops import chips
from mimw.ops.launching import Launch

SHAPES = (8192, 4096, 128256), (8192, 2048, 50304), (4096, 5120, 151936)
SUMS = {"fp32": torch.float32, "bf16": torch.bfloat16}
MULTIPROCESSORS = 132
SMALL = 1 << 20         # buffers of fewer bytes are one row of the table


class Peak(NamedTuple):
    """The most bytes over those of inputs and gradients, in forward and backward and in forward alone, and the buffers that were
    there then, (what it is, bytes), largest first."""

    ratio: float
    forward: float
    buffers: list[tuple[str, int]]


def peak(tokens: int, hidden: int, classes: int, sums: torch.dtype, kept: bool = False) -> Peak:
    """Of a loss and its gradients; with `kept` the graph is kept, so that backward must leave what it has for another one."""
    dtype = torch.bfloat16
    x, weight = (torch.empty(rows, hidden, dtype=dtype, requires_grad=True) for rows in (tokens, classes))
    target, inputs = torch.zeros(tokens, dtype=torch.int64), x.nbytes + weight.nbytes
    there, at_most, largest, forward = {}, {}, 0, 0
    with launching_nothing():
        torch.autograd.grad(ops.linear_cross_entropy(x, weight, target, accum_dtype=sums), (x, weight))
        for backward in (False, True):
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
                if not backward:
                    loss = ops.linear_cross_entropy(x, weight, target, accum_dtype=sums)
                else:
                    found = torch.autograd.grad(loss, (x, weight), retain_graph=kept)
            for place, size in _allocations(profile):
                if size < 0:
                    there.pop(place, None)
                    continue
                there[place] = size
                if (now := sum(there.values())) > largest:
                    largest, at_most = now, dict(there)
            forward = forward or largest
    assert [one.dtype for one in found] == [dtype, dtype]
    names = {weight.nbytes: "as large as the weight", x.nbytes: "as large as x", 2 * weight.nbytes: "the weight's size in fp32"}
    buffers = [("weight", weight.nbytes), ("x", x.nbytes)]
    for size in sorted(at_most.values(), reverse=True):
        rows = size / classes / dtype.itemsize
        buffers.append((names.get(size) or (f"logits of {rows:.0f} rows" if rows == int(rows) else "other"), size))
    few = sum(size for _, size in buffers if size < SMALL)
    buffers = [one for one in buffers if one[1] >= SMALL] + [("all that are smaller than 1 MiB", few)]
    return Peak((largest + inputs) / (2 * inputs), (forward + inputs) / (2 * inputs), buffers)


@contextmanager
def launching_nothing() -> Iterator[None]:
    """Inside, calls with tensors of the CPU do all that they do on an H200, but for launches."""
    with patch.object(chips, "SIMULATED_PROGRAMS", MULTIPROCESSORS), patch.object(Launch, "_first", lambda launch, tensors: None):
        yield


def _allocations(profile: torch.profiler.profile) -> list[tuple[int, int]]:
    """(address, bytes) of what was allocated, and with bytes below 0 given back, in the order of time."""
    found, left = [], list(profile.profiler.kineto_results.experimental_event_tree())
    while left:
        event = left.pop()
        left += event.children
        if event.tag == torch._C._profiler._EventType.Allocation:
            found.append((event.start_time_ns, event.extra_fields.ptr, event.extra_fields.alloc_size))
    return [one[1:] for one in sorted(found, key=lambda one: one[0])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", help="tokens x hidden x classes", metavar="SHAPE")
    parser.add_argument("--sums", choices=list(SUMS), nargs="*", default=list(SUMS))
    options = parser.parse_args()
    for shape in [tuple(map(int, one.split("x"))) for one in options.shapes] or SHAPES:
        for name in options.sums:
            found = peak(*shape, SUMS[name])
            whole = sum(size for _, size in found.buffers)
            print(f"{'x'.join(map(str, shape))}, sums of {name}: {found.ratio:.4f} of inputs and gradients, "
                  f"forward {found.forward:.4f}")
            for what, size in found.buffers:
                print(f"    {size / 1e6:9.1f} MB {size / whole * found.ratio:7.4f}  {what}")


if __name__ == "__main__":
    main()
