"""The TLE surface: the public names of TLE, one file per family. Kernels import this package as `mimw.tle`.

Input: the arguments of a call in a kernel. Output: ops of `mimw.ir`; the op of TLX, for a word that TLX has too. For
example:

    me = tle.shard_id(mesh, 0)          %me = srem %18, %19, where %18 = get_program_id axis=0
    tle.distributed_barrier(mesh)       distributed_barrier grid=False

TLE-Lite (tiles, scans, pipes) and the distributed words are here, TLE-Struct for GPUs is in `gpu`.
"""

from . import dsa, gpu, raw
from .body.call import call
from .body.constraint import hardware_constraint
from .bound_mesh import bind_mesh
from .cumsum import cumsum
from .distributed import distributed_barrier
from .dot import distributed_dot
from .load import load
from .mesh import device_mesh
from .pipe import pipe, pipe_reader, pipe_slot, pipe_value, pipe_wait_result, pipe_writer
from .remote import remote
from .reshard import reshard
from .shard_id import shard_id
from .sharding import B, P, S, ShardedTensor, ShardingSpec, make_sharded_tensor, sharding
from .struct import struct
from .tiles import extract_tile, insert_tile

__all__ = [
    "B", "P", "S", "ShardedTensor", "ShardingSpec", "bind_mesh", "call", "cumsum", "device_mesh",
    "distributed_barrier", "distributed_dot", "dsa", "extract_tile", "gpu", "hardware_constraint", "insert_tile",
    "load", "make_sharded_tensor", "pipe", "pipe_reader", "pipe_slot", "pipe_value", "pipe_wait_result",
    "pipe_writer", "raw", "remote", "reshard", "shard_id", "sharding", "struct",
]
