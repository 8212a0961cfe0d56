"""Programs that several tests run: a ring of buffers between two tasks, and a GEMM around one."""

from __future__ import annotations

from mimw.ir import Tensor

from .programs import BF16, FP32, Sketch


def ring(blocks: int = 6, stages: int = 2, *, wait_full=True, wait_empty=True, arrive_empty=True, bytes_short=0,
         empty_parity=1, full_parity=0) -> Sketch:
    """A producer loads `blocks` rows of 64 floats by TMA; a consumer doubles them. Each switch breaks one rule."""
    k = Sketch()
    x, y = k.descriptor(FP32, (1, 64), "x"), k.pointer(FP32, "y")
    tiles = k.buffers(FP32, (1, 64), stages, "tiles")
    full, empty = k.barriers(stages, 1, "full"), k.barriers(stages, 1, "empty")

    def slot_and_parity(i, flip):
        slot = k.op("srem", i, k.const(stages))
        parity = k.op("and", k.op("sdiv", i, k.const(stages)), k.const(1))
        return slot, k.op("xor", parity, k.const(flip))

    def producer():
        def body(i):
            slot, parity = slot_and_parity(i, empty_parity)
            if wait_empty:
                k.op("barrier_wait", k.bar(empty, slot), parity, None)
            k.op("barrier_expect", k.bar(full, slot), 256 - bytes_short, None)
            k.op("tma_load", x, (i, k.const(0)), k.bar(full, slot), k.op("buffer_index", tiles, slot), None, None)
        k.loop(blocks, body)

    def consumer():
        def body(i):
            slot, parity = slot_and_parity(i, full_parity)
            if wait_full:
                k.op("barrier_wait", k.bar(full, slot), parity, None)
            tile = k.op("local_load", k.op("buffer_index", tiles, slot), None)
            if arrive_empty:
                k.op("barrier_arrive", k.bar(empty, slot), 1, None)
            row = k.op("addptr", y, k.op("mul", i, k.const(64)))
            k.op("store", k.grid(row, (1, 64)), k.op("fadd", tile, tile), None)
        k.loop(blocks, body)

    k.tasks(consumer=consumer, producer=producer)
    return k


def gemm(block_m=128, block_n=256, block_k=64, stages=4, depth=1024) -> Sketch:
    """c = a @ b.T with one producer and two consumers of half a tile each, one output tile a program."""
    k = Sketch()
    half = block_m // 2
    a, b = k.descriptor(BF16, (half, block_k), "a"), k.descriptor(BF16, (block_n, block_k), "b")
    c = k.descriptor(BF16, (half, block_n), "c")
    a_tiles = k.buffers(BF16, (half, block_k), 2 * stages, "a_tiles")
    b_tiles = k.buffers(BF16, (block_n, block_k), stages, "b_tiles")
    c_tiles = k.buffers(BF16, (half, block_n), 2, "c_tiles")
    full, empty = k.barriers(stages, 1, "full"), k.barriers(stages, 2, "empty")
    row = k.op("mul", k.op("get_program_id", 0), k.const(block_m))
    column = k.op("mul", k.op("get_program_id", 1), k.const(block_n))
    rounds = depth // block_k

    def slot_and_parity(i, flip):
        slot = k.op("srem", i, k.const(stages))
        return slot, k.op("xor", k.op("and", k.op("sdiv", i, k.const(stages)), k.const(1)), k.const(flip))

    def load():
        def body(i):
            slot, parity = slot_and_parity(i, 1)
            k.op("barrier_wait", k.bar(empty, slot), parity, None)
            bar, at = k.bar(full, slot), k.op("mul", i, k.const(block_k))
            k.op("barrier_expect", bar, 2 * (block_m + block_n) * block_k, None)
            for part in (0, 1):
                tile = k.op("buffer_index", a_tiles, k.op("add", slot, k.const(part * stages)))
                k.op("tma_load", a, (k.op("add", row, k.const(part * half)), at), bar, tile, None, None)
            k.op("tma_load", b, (column, at), bar, k.op("buffer_index", b_tiles, slot), None, None)
        k.loop(rounds, body)

    def consume(part):
        def task():
            result = Tensor(FP32, (half, block_n))

            def body(i, acc):
                slot, parity = slot_and_parity(i, 0)
                k.op("barrier_wait", k.bar(full, slot), parity, None)
                lhs = k.op("buffer_index", a_tiles, k.op("add", slot, k.const(part * stages)))
                rhs = k.op("buffer_trans", k.op("buffer_index", b_tiles, slot), (1, 0))
                acc = k.op("async_dot", lhs, rhs, acc, None, 0, type=result)
                acc = k.op("async_dot_wait", 0, acc)
                k.op("barrier_arrive", k.bar(empty, slot), 1, None)
                return (acc, )

            (acc, ) = k.loop(rounds, body, [k.op("constant", 0.0, result)])
            tile = k.op("buffer_index", c_tiles, part)
            k.op("local_store", tile, k.op("fp_trunc", acc, Tensor(BF16, result.shape)))
            k.op("fence", "async_shared")
            k.op("tma_store", c, (k.op("add", row, k.const(part * half)), column), tile, None, "")
            k.op("tma_store_wait", 0)
        return task

    k.tasks(upper=consume(0), lower=consume(1), load=load)
    return k


__all__ = ["gemm", "ring"]
