"""Arrays in shared storage get their places, and what cannot be placed is refused with the sum."""

import pytest

from mimw.compiler.passes import check_aliases, check_shared, place_aliases
from mimw.errors import AliasError, OutOfSharedMemory
from mimw.ir import Buffer, Scalar
from mimw.ir.layouts import NvmmaShared
from mimw.target import target
from tests.constraints.building import Kernel, named

FP32, FP16 = Scalar("fp32"), Scalar("fp16")
HOPPER = target("sm_90a")


def storage(k, limit=None, name="spec", at=2):
    return k("alias_storage", "smem", limit, name=name, at=at)


def array(k, reuse, name, shape, element=FP32, count=2, at=3, layout=None):
    return k("local_alloc", Buffer(element, shape, count), reuse, name=name, at=at, layout=layout)


def overlap(k, spec, tree, *buffers, at=9):
    k("alias_overlap", spec, buffers, at=at, tree=tree)


def placed(k):
    return place_aliases(k.finish())


def starts(program, name):
    (op, ) = [op for op in program.walk() if op.name == "local_alloc" and op.result.name == name]
    return [op.attrs["place"].start(i) for i in range(op.attrs["place"].count)]


def attention(k, limit=None):
    spec = storage(k, limit)
    qk, p = array(k, spec, "qk", (64, 64)), array(k, spec, "p", (64, 64), FP16)
    overlap(k, spec, ("shared", 1, (0, ("distinct", 1, (1, 2)))), qk, p, array(k, spec, "alpha", (64, )))


def test_a_tree_becomes_places():
    k = Kernel()
    attention(k)
    program = placed(k)
    assert [starts(program, name) for name in ("qk", "p", "alpha")] == [[0, 16384], [0, 16384], [8192, 24576]]
    assert [op.name for op in program.walk() if op.name.startswith("alias")] == ["alias_storage"]
    assert named(program, "spec").type.limit is None and program.body.ops[0].attrs == {"bytes": 32768, "alignment": 128}


def test_a_program_without_shared_storage_stays_the_same_object():
    k = Kernel()
    k.alloc((64, ))
    program = k.finish()
    assert place_aliases(program) is program


def test_without_a_tree_all_start_at_0():
    k = Kernel()
    spec = storage(k)
    array(k, spec, "a", (64, ))
    array(k, spec, "b", (32, ), count=3)
    assert (starts(placed(k), "a"), starts(placed(k), "b")) == ([0, 256], [0, 128, 256])


def test_reuse_of_a_buffer_makes_a_storage_as_large_as_the_larger():
    k = Kernel()
    a = array(k, None, "a", (64, ))
    array(k, k("buffer_index", a, k("constant", 1, Scalar("i32"))), "b", (64, ), count=3)
    program = placed(k)
    assert (starts(program, "a"), starts(program, "b")) == ([0, 256], [256, 512, 768])
    assert program.body.ops[0].name == "alias_storage" and program.body.ops[0].attrs["bytes"] == 1024


def test_a_swizzled_array_is_aligned_for_its_swizzle():
    k = Kernel()
    spec = storage(k)
    small, tile = array(k, spec, "small", (64, )), array(k, spec, "tile", (64, 64), FP16, layout=NvmmaShared(128, 16, 2))
    overlap(k, spec, ("distinct", 1, (0, 1)), small, tile)
    assert starts(placed(k), "tile") == [1024, 10240]


def refused(k, match, sites):
    with pytest.raises(AliasError, match=match) as caught:
        placed(k)
    assert [site.line for site in caught.value.sites] == sites


def test_two_overlaps():
    k = Kernel()
    spec = storage(k)
    a = array(k, spec, "a", (64, ))
    overlap(k, spec, ("shared", 1, (0, )), a, at=8)
    overlap(k, spec, ("shared", 1, (0, )), a, at=9)
    refused(k, "storage_alias_spec already has a set_buffer_overlap defined", [9, 8])


def test_a_leaf_twice():
    k = Kernel()
    spec = storage(k)
    a = array(k, spec, "a", (64, ))
    overlap(k, spec, ("shared", 1, (0, 1)), a, a)
    refused(k, "reuse_group tree contains duplicate elements", [9])


def test_a_leaf_of_another_storage():
    k = Kernel()
    spec = storage(k)
    array(k, spec, "a", (64, ))
    overlap(k, spec, ("shared", 1, (0, )), array(k, storage(k, name="other"), "b", (64, ), at=5))
    refused(k, "must reference the same storage_alias_spec, but 'b' is not an array allocated with reuse='spec'", [9, 5])


@pytest.mark.parametrize("limit", [32768, 40000])
def test_a_sized_spec_that_is_large_enough(limit):
    k = Kernel()
    attention(k, limit)
    assert placed(k).body.ops[0].attrs["bytes"] == 32768


def test_a_sized_spec_that_is_too_small():
    k = Kernel()
    attention(k, 32767)
    refused(k, "storage_alias_spec buffer_size_bytes 32767 is too small .* requires at least 32768 bytes.\n"
            "        0 .. 16384  qk     2 buffers, every 16384\n"
            "        0 ..  8192  p      2 buffers, every 16384\n"
            "     8192 ..  8448  alpha  2 buffers, every 16384\n", [2, 3])


def test_no_space_for_distinct_arrays():
    k = Kernel()
    spec = storage(k, 16384)
    overlap(k, spec, ("distinct", 1, (0, 1)), *(array(k, spec, name, (64, 64), count=1) for name in "ab"))
    refused(k, "not enough space for distinct allocations: need 32768 bytes, have 16384 bytes", [2, 3])


def test_reuse_of_what_is_not_known_before_launch():
    k = Kernel()
    a = array(k, None, "a", (64, ), at=4)
    array(k, k("buffer_index", a, k.param("i", Scalar("i32")), at=5), "b", (64, ), at=6)
    refused(k, "`reuse` is a buffer whose address is not known before launch", [6, 5])


def test_an_unused_storage_is_remarked_and_takes_nothing():
    k = Kernel()
    storage(k)
    (remark, ) = check_aliases(k.finish(), HOPPER)
    assert "'spec' is used by no local_alloc" in str(remark)
    assert not placed(k).body.ops


def test_a_storage_counts_once_and_its_map_is_in_the_error():
    k = Kernel()
    attention(k)
    check_shared(placed(k), HOPPER)
    k = Kernel()
    spec = storage(k)
    pair = [array(k, spec, name, (128, 128), count=4) for name in ("first", "second")]
    for buffer in pair:
        k("local_load", k("buffer_index", buffer, k.number()), None, at=20)
    with pytest.raises(OutOfSharedMemory) as caught:
        check_shared(placed(k), HOPPER)
    assert caught.value.message.startswith("262144 bytes of shared memory are needed together")
    assert ("spec is shared by\n         0 ..  65536  first   4 buffers, every 65536\n"
            "         0 ..  65536  second  4 buffers, every 65536\n    262144 bytes") in caught.value.message
