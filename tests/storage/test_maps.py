"""The map of shared memory as text: offsets, kinds, lifetimes, and what is in use at one time."""

from mimw.compiler.storage import StorageEntry, storage_map


def test_the_storage_map():
    entries = [("full", 99328, 32, 0, 39, "barriers"), ("a", 0, 65536, 0, 39, "buffer"),
               StorageEntry("c", 65536, 16384, 22, 39, "scratch"), ("b", 65536, 32768, 5, 20, "buffer")]
    assert storage_map(entries) == """\
    0 .. 65536  a     buffer    65536 bytes  |########################################|
65536 .. 98304  b     buffer    32768 bytes  |.....################...................|
65536 .. 81920  c     scratch   16384 bytes  |......................##################|
98304 .. 99328  free
99328 .. 99360  full  barriers     32 bytes  |########################################|
99360 bytes; at most 98336 are in use at one time; the bars run over 40 ops
"""


def test_aliased_bytes_count_once():
    assert "24 bytes; at most 24 are in use" in storage_map([("a", 0, 16, 0, 1, "buffer"), ("b", 8, 16, 0, 1, "buffer")])


def test_an_empty_map():
    assert storage_map([]) == "no storage\n"
