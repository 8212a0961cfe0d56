"""MLA decoding, by the kernels for Hopper and the plain one: pages, lengths, splits, caches of e4m3; NaN behind the last key."""

import numpy as np
import pytest

import mimw
from mimw.kernels import plain_mla_decode
from mimw.kernels.mla_decode import arguments, of_bytes, of_pages, room_for
from mimw.target import target
from tests.compiling import stopping
from tests.kernels.mla import BF16, E4M3, close, packed, problem, reference

ONE = np.array([0.5], np.float32)


def launches(arrays, programs=3, cache=None, **options):
    room = np.full(room_for(arrays.q, arrays.out.shape[3], programs), np.nan, np.float32)
    return arguments(arrays.q, arrays.cache if cache is None else cache, arrays.lengths, arrays.out, arrays.lse, room, programs,
                     options.pop("table", arrays.table), **options)


def run(machine, arrays, programs=3, **options):
    for kernel, grid, args, meta in launches(arrays, programs, **options):
        machine.launch(kernel, grid, *args, **meta)


@pytest.mark.long(but=["case0-*", "case1-*", "case3-*", "case6-*"], everywhere=["case1-*", "case3-*", "case6-*"])
@pytest.mark.parametrize("case, programs, options", [
    (dict(lengths=(100, 300)), 3, {}),                                          # a sequence of two groups' shares
    (dict(queries=2, heads=16, lengths=(1, 200)), 3, dict(splits=1)),           # one launch; a query that sees no key
    (dict(lengths=(0, 64)), 3, {}),                                             # an empty sequence
    (dict(queries=2, heads=128, lengths=(70, 129), page=128), 5, dict(causal=False)),      # four programs a group, one is idle
    (dict(page=16, lengths=(33, 130)), 3, {}),
    (dict(page=32, lengths=(300, 9), values=256), 7, {}),
    (dict(batch=3, heads=40, lengths=(128, 128, 128), dtype=np.float16), 2, {}),     # whole sequences a group
])
def test_pages_lengths_and_shares(machine, case, programs, options):
    arrays = problem(**case)
    run(machine, arrays, programs, **options)
    close(arrays, reference(arrays, causal=options.get("causal", True)))


def test_a_cache_in_one_piece(machine):
    arrays = problem(lengths=(64, 50))
    close_to = arrays._replace(cache=arrays.cache[arrays.table[:, 0]], table=np.arange(2, dtype=np.int32)[:, None])
    run(machine, close_to, table=None)
    close(close_to, reference(close_to))


@pytest.mark.long(but=["packed-case0-*", "packed-case2-*", "e4m3-*", "odd-*"], everywhere=["packed-case2-*", "odd-*"])
@pytest.mark.parametrize("kind, case, options", [
    ("packed", dict(queries=2, heads=40, lengths=(0, 200), values=256), {}),        # rows at multiples of 8 bytes
    ("packed", dict(page=24, lengths=(30, 100)), dict(splits=1)),                   # of 4; pieces of rows in several pages
    ("packed", dict(page=128, lengths=(90, 128)), dict(table=None)),
    ("e4m3", dict(page=5, lengths=(30, 100)), dict(splits=1)),
    ("odd", dict(page=16, lengths=(30, 65)), dict(splits=1))])                      # rows that begin anywhere: byte by byte
def test_caches_of_e4m3(machine, kind, case, options):
    """Any pages and steps; rows behind the last key are not looked at."""
    arrays, more = problem(**case), {}
    if options.get("table", 0) is None:
        arrays = arrays._replace(cache=arrays.cache[arrays.table[:, 0]], table=np.arange(2, dtype=np.int32)[:, None])
    if kind == "packed":
        given, stands_for = packed(arrays.cache, arrays.out.shape[3])
    else:
        given, more = arrays.cache.astype(E4M3), dict(k_scale=ONE)
        stands_for = given.astype(np.float32) * ONE
    if kind == "odd":
        given = np.pad(given, [(0, 0)] * 3 + [(1, 2)])[..., 1:-2]
    run(machine, arrays, cache=given, **more, **options)
    close(arrays, reference(arrays, stands_for))


@pytest.mark.long(but=["own"], everywhere=True)
@pytest.mark.parametrize("kind", ["own", "e4m3", "packed"])
def test_pages_that_are_none_count_as_zeros(kind):
    """In all forms, as TMA reads them."""
    arrays = problem(batch=1, lengths=(128, ), page=64)
    stands_for, given, more = arrays.cache, None, {}
    if kind == "e4m3":
        given, more = arrays.cache.astype(E4M3), dict(k_scale=ONE)
        stands_for = given.astype(np.float32) * ONE
    elif kind == "packed":
        given, stands_for = packed(arrays.cache, 128)
    table = arrays.table.copy()
    table[0, 1] = 99
    for kernel, grid, args, meta in launches(arrays._replace(table=table), 1, given, **more):
        mimw.simulate(kernel, grid, *args, **meta)
    table[0, 1] = len(arrays.cache)
    close(arrays, reference(arrays._replace(table=table), np.concatenate([stands_for, np.zeros_like(stands_for[:1])])))


@pytest.mark.long(but=["own"], everywhere=True)
@pytest.mark.parametrize("kind", ["own", "packed"])
def test_no_interleaving_is_wrong(kind):
    arrays = problem(queries=2, heads=48, lengths=(3, 200))
    cache = None if kind == "own" else packed(arrays.cache, 128)[0]
    kernel, grid, args, meta = launches(arrays, 4, cache)[0]
    assert kernel is (of_pages if kind == "own" else of_bytes)
    report = mimw.check(kernel, grid, *args, seeds=3, shrink=False, **meta)
    assert report.ok, report


@pytest.mark.parametrize("splits, wide, kind, case", [
    (1, True, "own", dict(lengths=(100, 300))), (3, False, "own", dict(queries=2, heads=5, lengths=(0, 70), dtype=np.float32)),
    (2, False, "packed", dict(batch=1, lengths=(100, ))), (1, True, "e4m3", dict(page=8, lengths=(30, 100)))])
def test_the_plain_kernel(machine, splits, wide, kind, case):
    arrays, given, more = problem(**case), None, {}
    stands_for = arrays.cache
    if kind == "packed":
        given, stands_for = packed(arrays.cache, 128)
    elif kind == "e4m3":
        given, more = arrays.cache.astype(E4M3), dict(k_scale=ONE)
        stands_for = given.astype(np.float32) * ONE
    size = plain_mla_decode.room_for(arrays.q, 128, splits)
    room = np.full(size, np.nan, np.float32) if size else None
    for kernel, grid, args, meta in plain_mla_decode.arguments(arrays.q, arrays.cache if given is None else given, arrays.lengths,
                                                               arrays.out, arrays.lse, room, arrays.table, splits=splits, wide=wide,
                                                               exact=True, **more):
        machine.launch(kernel, grid, *args, **meta)
    close(arrays, reference(arrays, stands_for))


def test_refusals():
    arrays = problem()
    with pytest.raises(ValueError, match="rows are 512 columns of values .or 256, or 128. and 64 more"):
        launches(arrays._replace(out=arrays.out[..., :64].copy()))
    with pytest.raises(ValueError, match="page_size is 20; pages may have 16 or 32 keys, or a multiple of 64"):
        launches(problem(page=20))
    with pytest.raises(ValueError, match="1 tiles of 64 rows for 0 programs|programs is 0"):
        launches(arrays, 0)
    with pytest.raises(ValueError, match="has 2 tiles of 64 rows for 1 programs.*there must be a program for each tile"):
        launches(problem(heads=128), 1)
    with pytest.raises(ValueError, match="a scale goes with a cache of e4m3"):
        launches(arrays, k_scale=ONE)
    with pytest.raises(ValueError, match="e4m3 without a scale is packed"):
        launches(arrays, cache=arrays.cache.astype(E4M3))
    half = problem(dtype=np.float16)
    with pytest.raises(ValueError, match="q is float16, and pages and rows of the packed cache .* q must be bfloat16"):
        launches(half, cache=packed(half.cache.astype(BF16), 128)[0])
    with pytest.raises(ValueError, match="rows of the packed cache are 16832 and 263 bytes apart.* multiples of 4"):
        launches(arrays, cache=np.pad(packed(arrays.cache, 128)[0], [(0, 0)] * 3 + [(0, 3)])[..., :-3])


# ---- the sizes of DeepSeek's models: 128 heads, 512 + 64 columns -------------------------------------------------------

@pytest.mark.long(shown_by="test_sparse_mla.py::test_the_published_sizes_fit")
@pytest.mark.parametrize("kind", ["own", "packed"])
def test_the_models_sizes_fit(kind):
    arrays = problem(batch=4, heads=128, values=512, lengths=(64, ) * 4)
    cache = None if kind == "own" else packed(arrays.cache, 512)[0]
    kernel, grid, args, meta = launches(arrays, 132, cache)[0]
    with stopping(("ttgir", )):
        found = mimw.compile(kernel, grid, *args, target="sm_90a", **meta)
    assert found.metadata.shared == 230384 <= target("sm_90a").shared_bytes
    assert found.ttgir.count("warp_group_dot ") == 6


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["own", "packed"])
@pytest.mark.parametrize("case", [dict(batch=5, heads=128, lengths=(4096, 1, 0, 777, 64)),
                                  dict(queries=4, heads=16, lengths=(900, 65))])
def test_the_models_sizes_on_a_gpu(machine, kind, case):
    arrays = problem(values=512, **case)
    cache, stands_for = (arrays.cache, arrays.cache) if kind == "own" else packed(arrays.cache, 512)
    run(machine, arrays, 132, cache=cache)
    close(arrays, reference(arrays, stands_for), 2e-2)
