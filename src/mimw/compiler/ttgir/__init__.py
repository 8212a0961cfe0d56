"""Reader of TTGIR: what stock Triton, Gluon or another compiler leaves behind before LLVM, as a program of ours.

Input: the text of a module. Output: a `Program`, which the simulator runs and checks. For example:

    read_ttgir(open("tile.ttgir").read(), "tile.ttgir").program         program tile(%a: *fp16, ..)

The files:

    module.py        the module: its target, its warps, its function and the function's parameters
    reading.py       one op at a time; the registry of readers
    types.py         types of TTGIR as types of ours
    cta_parts.py, cta_ops.py, cta_accesses.py
                     parts of tiles in the CTAs of a program, ops of one of them, its accesses to the others
    locations.py     locations as places in the author's file
    arithmetic.py    numbers and tiles
    tiles.py         shapes of tiles, reductions
    control.py       loops, branches, partitions
    memory.py        global memory by pointers
    buffers.py       shared and tensor memory
    same_bytes.py    views of a buffer as another type
    data_memory.py   single 64-bit numbers in shared memory that are no mbarriers
    reshaped.py      views of a buffer of another shape
    barriers.py      mbarriers, fences
    copies.py        cp.async and TMA
    products.py      matrix products
    assembly.py      native code of mimw's own lowering
    arrivals.py      arrivals of each thread, fences, by assembly
    masked_stores.py masked stores into shared memory by assembly
    picked.py        picked elements of shared memory
    element_registers.py   what assembly holds of a tile
    assembly_copies.py, assembly_cluster.py, remote_elements.py, assembly_products.py
                     its copies by TMA, its accesses to other CTAs, its products
    launch_control.py    requests for the work of other clusters
    amd.py           buffer accesses of AMD's chips
    descriptors.py   tensor descriptors made in a kernel
"""

from . import (  # noqa: F401
    amd,
    arithmetic,
    arrivals,
    assembly,
    assembly_cluster,
    assembly_copies,
    assembly_products,
    barriers,
    buffers,
    control,
    copies,
    descriptors,
    halves,
    launch_control,
    masked_stores,
    memory,
    mover,
    picked,
    products,
    remote_elements,
    reshaped,
    tiles,
    upcasts,
)
from .module import Reading, fenced, read_ttgir, with_late_passes
from .reading import readable

__all__ = ["Reading", "fenced", "read_ttgir", "readable", "with_late_passes"]
