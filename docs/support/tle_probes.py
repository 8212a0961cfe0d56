"""The smallest kernel for each TLE word. Parameters by name: `x` and `y` point at 4096 floats, `i` at 4096 ints, `d` is a host
descriptor of half floats in blocks of 64 x 64, `w` points at the table of this rank's world."""

import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.tle.raw import arith, gpu, math, memref, scf, tensor
from mimw.tle.raw.mlir import vprintf

SIGNATURE = {"x": "*fp32", "y": "*fp32", "i": "*i32", "w": "*i64", "d": "tensordesc<fp16[64, 64]>"}
PAIR = tle.device_mesh({"cluster": 2})
GRID = tle.device_mesh({"block": 2})
GPUS = tle.device_mesh({"device": 1})
ROWS = tle.sharding(PAIR, ["cluster", None])
WHOLE = tle.sharding(PAIR)
UB = tle.dsa.ascend.UB
PROBES = {}


def probe(name):
    def keep(function):
        PROBES[name] = mimw.jit(function)
        return PROBES[name]
    return keep


@mimw.jit
def _store(p, value):
    tl.store(p, value)


@probe("load")
def load(x, y):
    tl.store(y + tl.arange(0, 128), tle.load(x + tl.arange(0, 128), is_async=True))


@probe("extract_tile")
def extract(x, y):
    tile = tle.extract_tile(tl.load(x + tl.arange(0, 128)), tl.program_id(0), [32])
    tl.store(y + tl.arange(0, 32), tile)


@probe("insert_tile")
def insert(x, y):
    tile = tle.insert_tile(tl.load(x + tl.arange(0, 128)), tl.load(y + tl.arange(0, 32)), tl.program_id(0))
    tl.store(x + tl.arange(0, 128), tile)


@probe("cumsum")
def cumsum(x, y):
    exclusive, total = tle.cumsum(tl.load(x + tl.arange(0, 128)))
    tl.store(y + tl.arange(0, 128), exclusive + total)


@probe("pipe")
def pipe(x, y):
    at = tl.arange(0, 64)
    stages = tle.gpu.alloc([2, 64], tl.float32)
    pipe = tle.pipe(capacity=2, tile=stages)
    writer, reader = pipe.writer(), pipe.reader()
    for step in range(2):
        tl.store(tle.gpu.local_ptr(writer.acquire(step).tile, (at, )), tl.load(x + step * 64 + at))
        writer.commit(step)
        tl.store(y + step * 64 + at, tl.load(tle.gpu.local_ptr(reader.wait(step).slot.tile, (at, ))))
        reader.release(step)


@tle.struct
class _Row:
    tile: tl.tensor
    scale: tl.constexpr = 2

    @mimw.jit
    def scaled(self):
        return self.tile * self.scale


@probe("struct")
def struct(x, y):
    row = _Row(tl.load(x + tl.arange(0, 128)))
    for _ in range(4):
        row = row.replace(tile=row.scaled())
    tl.store(y + tl.arange(0, 128), row.tile)


@probe("gpu.alloc, gpu.local_ptr")
def local(x, y):
    at = tl.arange(0, 128)
    buffer = tle.gpu.alloc([128], tl.float32)
    tl.store(tle.gpu.local_ptr(buffer, (at, )), tl.load(x + at))
    tl.store(y + at, tl.load(tle.gpu.local_ptr(buffer, (127 - at, ))))


@probe("gpu.local_ptr: atomics")
def atomics(i):
    at = tl.arange(0, 128)
    bins = tle.gpu.alloc([16], tl.int32)
    tl.store(tle.gpu.local_ptr(bins), tl.zeros([16], tl.int32))
    tl.atomic_add(tle.gpu.local_ptr(bins, (tl.load(i + at) & 15, )), 1)
    tl.store(i + tl.arange(0, 16), tl.load(tle.gpu.local_ptr(bins)))


@probe("gpu.local_ptr: compare and swap")
def swap(i):
    word = tle.gpu.alloc([1], tl.int32)
    tl.store(tle.gpu.local_ptr(word, [0]), 0)
    tl.store(i, tl.atomic_cas(tle.gpu.local_ptr(word, [0]), 0, 1))


@probe("gpu.copy, pointers")
def copy(x, y):
    at = tl.arange(0, 128)
    buffer = tle.gpu.alloc([128], tl.float32)
    tle.gpu.copy(x + at, buffer, [128])
    tle.gpu.copy(buffer, y + at, [128])


@probe("gpu.copy, descriptors")
def copy_tile(d):
    buffer = tle.gpu.alloc([64, 64], tl.float16)
    tle.gpu.copy(d, buffer, [64, 64], [0, 0])
    tle.gpu.copy(buffer, d, [64, 64], [0, 0])


@probe("gpu.copy, rows of a pointer")
def copy_rows(x, y):
    buffer = tle.gpu.alloc([16, 32], tl.float32)
    tle.gpu.copy(x, buffer, [16, 32], [15 - tl.arange(0, 16), 0], stride=32, extents=[16, 32])
    tle.gpu.copy(buffer, y, [16, 32], [15 - tl.arange(0, 16), 0], stride=32, extents=[16, 32])


@probe("gpu.copy, rows of a descriptor")
def copy_described_rows(x):
    d = tl.make_tensor_descriptor(x, [16, 32], [32, 1], [1, 32])
    buffer = tle.gpu.alloc([16, 32], tl.float32)
    tle.gpu.copy(d, buffer, [16, 32], [15 - tl.arange(0, 16), 0])
    tle.gpu.copy(buffer, d, [16, 32], [15 - tl.arange(0, 16), 0])


@probe("gpu.warp_specialize")
def partitions(x, y):
    tle.gpu.warp_specialize([(_store, (x, 1.0)), (_store, (y, 2.0))], [4], [80])


@probe("gpu.memory_space")
def memory_space(x, y):
    tl.store(y + tl.arange(0, 128), tle.gpu.memory_space(tl.load(x + tl.arange(0, 128)), "shared_memory"))


@probe("shard_id")
def shard_id(i):
    tl.store(i + tl.program_id(0), tle.shard_id(PAIR, "cluster"))


@probe("distributed_barrier, cluster")
def meet(x):
    tle.distributed_barrier(PAIR)
    tl.store(x, 1.0)


@probe("distributed_barrier, grid")
def meet_all(x):
    tle.distributed_barrier(GRID)
    tl.store(x, 1.0)


@probe("remote")
def remote(x, y):
    at = tl.arange(0, 128)
    buffer = tle.gpu.alloc([128], tl.float32)
    tl.store(tle.gpu.local_ptr(buffer, (at, )), tl.load(x + at))
    tle.distributed_barrier(PAIR)
    there = tle.remote(buffer, 1 - tle.shard_id(PAIR, 0))
    tl.store(y + at, tl.load(tle.gpu.local_ptr(there, (at, ))))
    tle.distributed_barrier(PAIR)


@probe("bind_mesh: shard_id, several GPUs")
def shard_id_of_gpus(i, w):
    tl.store(i, tle.shard_id(tle.bind_mesh(GPUS, w), "device"))


@probe("bind_mesh: remote, several GPUs")
def remote_of_gpus(x, y, w):
    tl.store(tle.remote(y, 0, scope=tle.bind_mesh(GPUS, w)), tl.load(x))


@probe("bind_mesh: distributed_barrier, several GPUs")
def meet_gpus(x, w):
    tle.distributed_barrier(tle.bind_mesh(GPUS, w))
    tl.store(x, 1.0)


@probe("bind_mesh: remote of a sharded tensor, several GPUs")
def remote_shard_of_gpus(x, y, w):
    mesh = tle.bind_mesh(GPUS, w)
    tl.store(y + tl.arange(0, 64), tl.load(tle.remote(tle.make_sharded_tensor(x, tle.sharding(mesh, ["device"]), [64]), 0)))


@probe("bind_mesh: reshard, several GPUs")
def reshard_gpus(x, y, w):
    mesh = tle.bind_mesh(GPUS, w)
    at = tl.arange(0, 64)
    total = tle.reshard(tle.make_sharded_tensor(tl.load(x + at), tle.sharding(mesh, None, ["device"])), tle.sharding(mesh))
    tl.store(y + at, total.handle)


@probe("bind_mesh: distributed_dot, several GPUs")
def dot_of_gpus(x, y, w):
    mesh = tle.bind_mesh(GPUS, w)
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tile = tle.make_sharded_tensor(tl.load(x + at).to(tl.float16), tle.sharding(mesh))
    tl.store(y + at, tle.distributed_dot(tile, tile).handle)


@probe("dsa.alloc, dsa.copy, dsa.add")
def local_memory(x, y, i):
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([50], tl.float32, UB)
    tle.dsa.copy(x + at, a, [50])
    tle.dsa.add(a, a, a)
    tle.dsa.copy(a, y + at, [tl.load(i)])


@probe("dsa.to_tensor, dsa.to_buffer")
def local_value(x, y):
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([64], tl.float32, UB)
    tle.dsa.copy(x + at, a, [64])
    tle.dsa.copy(tle.dsa.to_buffer(tl.exp(tle.dsa.to_tensor(a)), UB), y + at, [64])


@probe("dsa.subview, dsa.local_ptr")
def local_view(x, y):
    a = tle.dsa.alloc([50], tl.float32, UB)
    tle.dsa.copy(x + tl.arange(0, 64), a, [50])
    odd = tle.dsa.subview(a, [1], [16], [2])
    tl.store(y + tl.arange(0, 16), tl.load(tle.dsa.local_ptr(odd)))


@probe("dsa.extract_slice, dsa.insert_slice, dsa.extract_element")
def local_slices(x, y):
    tile = tl.load(x + tl.arange(0, 64))
    part = tle.dsa.extract_slice(tile, [tl.program_id(0)], [16], [2])
    tile = tle.dsa.insert_slice(tile, part, [0], [16], [1])
    tl.store(y + tl.arange(0, 64), tile + tle.dsa.extract_element(tile, (3, )))


@probe("dsa.pipeline, dsa.hint")
def local_loop(x, y):
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([64], tl.float32, UB)
    with tle.dsa.hint(inter_no_alias=True):
        for step in tle.dsa.pipeline(0, 4):
            tle.dsa.copy(x + step * 64 + at, a, [64])
            tle.dsa.copy(a, y + step * 64 + at, [64])


@probe("dsa.parallel")
def local_trips(x, y):
    at = tl.arange(0, 64)
    a = tle.dsa.alloc([64], tl.float32, UB)
    for step in tle.dsa.parallel(0, 4):
        tle.dsa.copy(x + step * 64 + at, a, [64])
        tle.dsa.copy(a, y + step * 64 + at, [64])


@tle.raw.dialect(name="mlir", source="""
tt.func @half(%x: tensor<64xf32>) -> tensor<64xf32> {
  %c = arith.constant dense<0.5> : tensor<64xf32>
  %y = arith.mulf %x, %c : tensor<64xf32>
  tt.return %y : tensor<64xf32>
}
""")
def half(x): ...


def half_reference(tile):
    tile *= 0.5


@tle.raw.dialect(name="ptx", reference=half_reference, source="""
.func halve(.param .b32 tile)
{
    .reg .b32 %at, %t; .reg .f32 %x;
    ld.param.b32 %at, [tile];
    mov.u32 %t, %tid.x;
    mad.lo.u32 %at, %t, 4, %at;
    ld.shared.f32 %x, [%at];
    mul.f32 %x, %x, 0f3F000000;
    st.shared.f32 [%at], %x;
    ret;
}
""")
def halve(tile: tle.raw.InOut["memref<128xf32, 3>"]): ...  # noqa: F722


@probe("raw.call, CUDA C++, PTX, LLVM IR")
def native_code(x, y):
    at = tl.arange(0, 128)
    tl.store(y + at, tle.raw.call(halve, [tl.load(x + at)]))


@probe("raw.call_smem")
def native_code_in_place(x, y):
    buffer = tle.gpu.alloc([128], tl.float32)
    tl.store(tle.gpu.local_ptr(buffer), tl.load(x + tl.arange(0, 128)))
    tle.raw.call_smem(halve, [buffer])
    tl.store(y + tl.arange(0, 128), tl.load(tle.gpu.local_ptr(buffer)))


@probe("raw.call, functions on tiles in MLIR text")
def mlir_text(x, y):
    at = tl.arange(0, 64)
    tl.store(y + at, tle.raw.call(half, [tl.load(x + at)]))


@tle.raw.language(name="mlir")
def thread_by_thread(a: "tensor<64xf32>", b: "tensor<64xf32>"):  # noqa: F722
    at = gpu.thread_id("x")
    tensor.insert(math.exp(tensor.extract(a, [at])), b, [arith.subi(63, at)])


@probe("call")
def raw_in_the_seeds_form(x, y):
    a, b = tl.load(x + tl.arange(0, 64)), tl.zeros((64, ), tl.float32)
    tle.call(thread_by_thread, args=[a, b], hardware={"threads": (64, )}, layout={a: {"space": "shared", "order": [0]}})
    tl.store(y + tl.arange(0, 64), b)


@tle.raw.dialect(name="mlir")
def over_the_warp(a: tle.raw.InOut["memref<?xf32, 3>"]):  # noqa: F722
    at = arith.remsi(gpu.thread_id("x"), memref.dim(a, 0))
    value = memref.load(a, [at])
    gpu.barrier()
    with scf.if_(arith.cmpi("slt", at, 32)):
        memref.store(gpu.shuffle(value, 1, 32, "xor")[0], a, [at])


@probe("raw.call, body in MLIR's words")
def raw_body(x, y):
    tl.store(y + tl.arange(0, 64), tle.raw.call(over_the_warp, [tl.load(x + tl.arange(0, 64))]))


@tle.raw.dialect(name="mlir")
def says():
    vprintf("%lld\n", gpu.thread_id("x"))


@probe("raw.call, vprintf")
def raw_print():
    tle.raw.call(says, [])


@probe("reshard")
def reshard(x, y):
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    whole = tle.reshard(tle.make_sharded_tensor(tl.load(x + at), ROWS, [64, 64]), WHOLE)
    tl.store(y + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], whole.handle)


@probe("distributed_dot")
def dot(x, y):
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    square = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    a = tle.make_sharded_tensor(tl.load(x + at).to(tl.float16), ROWS, [64, 64])
    b = tle.make_sharded_tensor(tl.load(x + square).to(tl.float16), WHOLE, [64, 64])
    tl.store(y + at, tle.distributed_dot(a, b).handle)
