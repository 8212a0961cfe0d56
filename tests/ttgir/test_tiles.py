"""Readers of shapes, reductions and copies of tiles: each op against numpy."""

import numpy as np
import pytest

from mimw.errors import NotYet
from tests.ttgir.modules import AT, elementwise, kernel, loaded, ran, stored

LINE = "tensor<128xf32, #line>"
X = np.random.default_rng(1).standard_normal(128).astype(np.float32)
N = np.random.default_rng(2).integers(0, 128, 128).astype(np.int32)


def shaped(ops: str, x: np.ndarray = X) -> np.ndarray:
    return elementwise(ops, "f32", "f32", x)


def test_reshape_and_trans():
    made = f"""%s = tt.reshape %a : {LINE} -> tensor<8x16xf32, #square>
        %t = tt.trans %s {{order = array<i32: 1, 0>}} : tensor<8x16xf32, #square> -> tensor<16x8xf32, #flat>
        %u = ttg.convert_layout %t : tensor<16x8xf32, #flat> -> tensor<16x8xf32, #narrow>
        %r = tt.reshape %u : tensor<16x8xf32, #narrow> -> {LINE}
        """
    flat = "#flat = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [16, 2], warpsPerCTA = [1, 4], order = [0, 1]}>\n" \
           "#narrow = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>\n"
    out = np.zeros(128, np.float32)
    ran(kernel("%xa: !tt.ptr<f32>, %o: !tt.ptr<f32>", AT + loaded("a", "%xa", "f32") + made + stored("%r", "%o", "f32"),
               layouts=flat), X, out)
    assert (out == X.reshape(8, 16).T.reshape(-1)).all()


def test_an_order_of_a_layout_is_refused():
    with pytest.raises(NotYet, match="tt.reshape with allow_reorder"):
        shaped(f"%s = tt.reshape %a allow_reorder : {LINE} -> tensor<8x16xf32, #square> \n"
               f"%r = tt.reshape %s : tensor<8x16xf32, #square> -> {LINE}")


def test_expand_dims_and_broadcast():
    made = """%i = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32, #high>
        %e = tt.expand_dims %i {axis = 1 : i32} : tensor<8xi32, #high> -> tensor<8x1xi32, #square>
        %b = tt.broadcast %e : tensor<8x1xi32, #square> -> tensor<8x16xi32, #square>
        %r = tt.reshape %b : tensor<8x16xi32, #square> -> tensor<128xi32, #line>"""
    assert (elementwise(made, "f32", "i32", X) == np.repeat(np.arange(8), 16)).all()


@pytest.mark.parametrize("word, numpy", [("arith.addf", np.sum), ("arith.maxnumf", np.max)])
def test_reduce_along_an_axis(word, numpy):
    made = f"""%s = tt.reshape %a : {LINE} -> tensor<8x16xf32, #square>
        %d = "tt.reduce"(%s) <{{axis = 1 : i32}}> ({{
        ^bb0(%p: f32, %q: f32):
          %m = {word} %p, %q : f32
          tt.reduce.return %m : f32
        }}) : (tensor<8x16xf32, #square>) -> tensor<8xf32, #high>
        %e = tt.expand_dims %d {{axis = 1 : i32}} : tensor<8xf32, #high> -> tensor<8x1xf32, #square>
        %t = tt.broadcast %e : tensor<8x1xf32, #square> -> tensor<8x16xf32, #square>
        %r = tt.reshape %t : tensor<8x16xf32, #square> -> {LINE}"""
    assert np.allclose(shaped(made), np.repeat(numpy(X.reshape(8, 16), axis=1), 16), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse):
    made = f"""%r = "tt.scan"(%a) <{{axis = 0 : i32, reverse = {str(reverse).lower()}}}> ({{
        ^bb0(%p: f32, %q: f32):
          %m = arith.addf %p, %q : f32
          tt.scan.return %m : f32
        }}) : ({LINE}) -> {LINE}"""
    wanted = np.cumsum(X[::-1])[::-1] if reverse else np.cumsum(X)
    assert np.allclose(shaped(made), wanted, rtol=1e-4, atol=1e-4)


def test_map_elementwise():
    made = f"""%r = "tt.map_elementwise"(%a) <{{pack = 1 : i32}}> ({{
        ^bb0(%p: f32):
          %m = arith.mulf %p, %p : f32
          tt.map_elementwise.return %m : f32
        }}) : ({LINE}) -> {LINE}"""
    assert np.allclose(shaped(made), X * X)


def test_join_and_split():
    pairs = ("#pair = #ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [1, 0]}>\n"
             "#half = #ttg.slice<{dim = 1, parent = #pair}>\n")
    made = """%h = ttg.convert_layout %a : tensor<128xf32, #line> -> tensor<128xf32, #half>
        %n = arith.negf %h : tensor<128xf32, #half>
        %j = tt.join %h, %n : tensor<128xf32, #half> -> tensor<128x2xf32, #pair>
        %p, %q = tt.split %j : tensor<128x2xf32, #pair> -> tensor<128xf32, #half>
        %d = arith.subf %p, %q : tensor<128xf32, #half>
        %r = ttg.convert_layout %d : tensor<128xf32, #half> -> tensor<128xf32, #line>
        """
    out = np.zeros(128, np.float32)
    ran(kernel("%xa: !tt.ptr<f32>, %o: !tt.ptr<f32>", AT + loaded("a", "%xa", "f32") + made + stored("%r", "%o", "f32"),
               layouts=pairs), X, out)
    assert (out == 2 * X).all()


def test_gather_and_histogram():
    made = "%r = tt.gather %a[%b] {axis = 0 : i32} : (tensor<128xi32, #line>, tensor<128xi32, #line>) -> R"
    assert (elementwise(made, "i32", "i32", N[::-1].copy(), N) == N[::-1][N]).all()
    assert (elementwise("%r = tt.histogram %a : T -> R", "i32", "i32", N) == np.bincount(N, minlength=128)).all()


def test_splat_and_unsplat():
    made = """%k = arith.constant dense<3> : tensor<1xi32, #line>
        %n = tt.unsplat %k : tensor<1xi32, #line>
        %r = tt.splat %n : i32 -> R"""
    assert (elementwise(made, "i32", "i32", N) == 3).all()


def test_programs_of_a_grid():
    """Each program stores its number behind those in front of it."""
    body = """%x = tt.get_program_id x : i32
        %y = tt.get_program_id y : i32
        %n = tt.get_num_programs x : i32
        %m = arith.muli %y, %n : i32
        %k = arith.addi %m, %x : i32
        %p = tt.addptr %o, %k : !tt.ptr<i32>, i32
        tt.store %p, %k : !tt.ptr<i32>"""
    out = np.zeros(6, np.int32)
    ran(kernel("%o: !tt.ptr<i32>", body), out, grid=(3, 2))
    assert (out == np.arange(6)).all()
