"""The registers of matrix cores: kinds and schedules change no number; slices are those of numpy.

Input: a task at an op of `ir/ops/matrix_registers.py`. Output: its tile. For example:

    %kept = keep_in_registers %tile kind="agpr"                  %tile
    %part = extract_slice %tile shape=(8, 32) offsets=(8, 0)     %tile[8:16, 0:32]
"""

from __future__ import annotations

from ..machine.table import handles


@handles("keep_in_registers", "commit_products")
def same_tile(task, op):
    task.env[op.result] = task.read(op.value, op)


@handles("extract_slice")
def extract_slice(task, op):
    task.env[op.result] = task.read(op.value, op)[tuple(slice(first, first + extent)
                                                        for first, extent in zip(op.offsets, op.shape, strict=True))]
