"""Readers of AMD's ops and of assembly: small kernels by hand."""

from contextlib import nullcontext

import numpy as np
import pytest

from mimw.errors import NotYet, TooFewArrivals, TooManyArrivals, TtgirError
from tests.ttgir.modules import kernel, ran

WAVES = "#waves = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [4], order = [0]}>\n"
LINE, OFFSETS = "tensor<256xf32, #waves>", "tensor<256xi32, #waves>"
MEMORY = "!ttg.memdesc<256xf32, #barrier, #smem, mutable>"
SHORT = MEMORY.removeprefix("!ttg.memdesc")      # as the op prints it
AT = f"%at = tt.make_range {{start = 0 : i32, end = 256 : i32}} : {OFFSETS}\n"
MASK = f"""%k = arith.constant dense<200> : {OFFSETS}
    %z = arith.constant dense<-1.0> : {LINE}
    %in = arith.cmpi slt, %at, %k : {OFFSETS}
    """
X = np.random.default_rng(5).standard_normal(256).astype(np.float32)


def on_amd(body: str, more: str = "") -> np.ndarray:
    out = np.zeros(256, np.float32)
    ran(kernel("%x: !tt.ptr<f32>, %o: !tt.ptr<f32>", AT + body, target="hip:gfx950", layouts=WAVES + more), X, out, target="gfx950")
    return out


def test_buffer_loads_and_stores():
    assert (on_amd(f"""%v = amdg.buffer_load %x[%at] : !tt.ptr<f32> -> {LINE}
        amdg.buffer_store %v, %o[%at] : !tt.ptr<f32> -> {LINE}""") == X).all()
    found = on_amd(MASK + f"""%v = amdg.buffer_load %x[%at], %in, %z : !tt.ptr<f32> -> {LINE}
        amdg.buffer_store %v, %o[%at] : !tt.ptr<f32> -> {LINE}""")
    assert (found == np.where(np.arange(256) < 200, X, -1)).all()
    found = on_amd(MASK + f"""%v = amdg.buffer_load %x[%at] : !tt.ptr<f32> -> {LINE}
        amdg.buffer_store %v, %o[%at], %in : !tt.ptr<f32> -> {LINE}""")
    assert (found == np.where(np.arange(256) < 200, X, 0)).all()


def test_buffer_atomics():
    """Sums of four places, the greatest of each; a comparison that holds for some."""
    base = f"""%four = arith.constant dense<4> : {OFFSETS}
        %place = arith.remsi %at, %four : {OFFSETS}
        %v = amdg.buffer_load %x[%at] : !tt.ptr<f32> -> {LINE}
        """
    found = on_amd(MASK + base + f"%r = amdg.buffer_atomic_rmw fadd, relaxed, gpu, %v, %o[%place], %in : !tt.ptr<f32> -> {LINE}")
    assert np.allclose(found[:4], X[:200].reshape(50, 4).sum(0), atol=1e-4) and not found[4:].any()
    numbers, out = np.arange(256, dtype=np.int32)[::-1].copy(), np.zeros(256, np.int32)
    text = AT + base.replace("f32", "i32").replace(LINE, OFFSETS) + f"""
        %m = amdg.buffer_atomic_rmw max, acq_rel, gpu, %v, %o[%place] : !tt.ptr<i32> -> {OFFSETS}
        %t = arith.constant dense<3> : {OFFSETS}
        %z = arith.constant dense<255> : {OFFSETS}
        %c = amdg.buffer_atomic_cas acq_rel, gpu, %z, %t, %o[%at] : !tt.ptr<i32> -> {OFFSETS}"""
    ran(kernel("%x: !tt.ptr<i32>, %o: !tt.ptr<i32>", text, target="hip:gfx942", layouts=WAVES), numbers, out, target="gfx942")
    assert out[:4].tolist() == [3, 254, 253, 252] and not out[4:].any()


def test_copies_into_shared_memory():
    found = on_amd(MASK + f"""%m = ttg.local_alloc : () -> {MEMORY}
        %t = amdg.buffer_load_to_local %x[%at] mask = %in other = %z into %m : !tt.ptr<f32>[{OFFSETS}] {LINE} -> {SHORT}
        %g = ttg.async_commit_group tokens %t
        %w = ttg.async_wait %g {{num = 0 : i32}}
        %v = ttg.local_load %m token %w : {MEMORY} -> {LINE}
        rocdl.sched.barrier none
        amdg.buffer_store %v, %o[%at] : !tt.ptr<f32> -> {LINE}""")
    assert (found == np.where(np.arange(256) < 200, X, -1)).all()


def test_a_part_of_a_tile_in_registers():
    more = "#two = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 16], warpsPerCTA = [4, 1], order = [1, 0]}>\n" \
           "#across = #ttg.slice<{dim = 0, parent = #two}>\n#down = #ttg.slice<{dim = 1, parent = #two}>\n"
    found = on_amd("""%i = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32, #down>
        %e = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32, #down> -> tensor<32x1xi32, #two>
        %b = tt.broadcast %e : tensor<32x1xi32, #two> -> tensor<32x64xi32, #two>
        %p = amdg.extract_slice %b [16, 0] : tensor<32x64xi32, #two> to tensor<16x64xi32, #two>
        %s = "tt.reduce"(%p) <{axis = 0 : i32}> ({
        ^bb0(%u: i32, %v: i32):
          %m = arith.minsi %u, %v : i32
          tt.reduce.return %m : i32
        }) : (tensor<16x64xi32, #two>) -> tensor<64xi32, #across>
        %t = "tt.reduce"(%s) <{axis = 0 : i32}> ({
        ^bb0(%u: i32, %v: i32):
          %m = arith.minsi %u, %v : i32
          tt.reduce.return %m : i32
        }) : (tensor<64xi32, #across>) -> i32
        %f = arith.sitofp %t : i32 to f32
        tt.store %o, %f : !tt.ptr<f32>""", more)
    assert found[0] == 16


@pytest.mark.parametrize("op", ["amdg.sched_barrier 0", "amdg.instruction_sched_hint"])
def test_hints_of_other_releases_are_not_known_to_this_mlir(op):
    with pytest.raises(TtgirError, match="is unknown"):
        on_amd(op)


def test_arrivals_of_each_wave():
    """Assembly of mimw's, up to the last stage of its lowering; each of four waves counts for so many."""
    body = """%c0 = arith.constant 0 : i32
        %n = arith.constant 32 : i32
        %all = arith.constant COUNT : i32
        %b = ttg.local_alloc : () -> BARRIER
        ttg.inline_asm "mimw.init" {constraints = "v,v", pure = false} %b, %all : (BARRIER, i32) -> ()
        ttg.inline_asm "s_waitcnt lgkmcnt(0)" {constraints = "~{memory}", pure = false} : () -> ()
        ttg.inline_asm "mimw.each" {constraints = "v,v", pure = false} %b, %n : (BARRIER, i32) -> ()
        ttg.inline_asm "mimw.wait" {constraints = "v,v", pure = false} %b, %c0 : (BARRIER, i32) -> ()"""
    for count, error in ((128, None), (129, TooFewArrivals), (127, TooManyArrivals)):
        with pytest.raises(error) if error else nullcontext():
            ran(kernel("%o: !tt.ptr<f32>", body.replace("COUNT", str(count)), target="hip:gfx942"), np.zeros(1, np.float32),
                target="gfx942")


def test_assembly_that_is_known():
    """The number of a thread, as mimw's own kernels ask for it; a program of the simulator has all threads' numbers at once."""
    body = '%r = ttg.inline_asm "setmaxnreg.dec.sync.aligned.u32 40;" {constraints = "", pure = false} : () -> ()'
    ran(kernel("%o: !tt.ptr<f32>", body.replace("%r = ", "")), np.zeros(1, np.float32))


def test_assembly_that_is_not_known_is_refused_with_its_text():
    with pytest.raises(NotYet, match="this assembly has no meaning(.|\n)*mov.u32"):
        ran(kernel("%o: !tt.ptr<f32>", '%r = ttg.inline_asm "mov.u32 $0, %smid;" {constraints = "=r", pure = false} : () -> i32'),
            np.zeros(1, np.float32))
