"""The meaning of each op: one handler an op, in a file of the op's family.

Input: the families are imported. Output: the table `machine.table.HANDLERS`. For example:

    HANDLERS["local_load"].run(task, op)            the task reads the buffer's tile
"""

# Importing the families puts their handlers into the table.
from . import (  # noqa: F401
    assembly,
    barrier_memory,
    barriers,
    buffer_words,
    buffers,
    bulk,
    cluster,
    control,
    copies,
    debug,
    descriptor_slots,
    descriptors,
    dsa,
    elements,
    late_arrivals,
    launch_control,
    layouts,
    libdevice,
    matrix_registers,
    memory,
    mma,
    mover,
    multimem,
    named_barriers,
    pairs,
    pixels,
    raw,
    raw_mlir,
    reductions,
    remote,
    remote_elements,
    rounding,
    rows,
    scaled,
    scheduling,
    tensor_memory,
    threads,
    tiles,
    warp_stages,
    world,
)
