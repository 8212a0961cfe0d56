"""What `compiled_checks` found in published kernels, looked at one by one, and which kernels Triton 3.9 does not compile.

    FOUND["gluon-08-matmul"]        what is wrong there; docs/BUGS.md has it in full

Input: nothing. Output: sentences by the names of cases. Those that are wrong on purpose (`Case.is_wrong`) are not here.
"""

_AHEAD = "the last load of a tile's prologue has no predicate, so behind the last tile one is started that nobody waits for"
_COPY = "cp.async is still under way when the kernel ends; ConSan looks at no end"
_UNUSED = "mbarriers are invalidated while a commit has yet to arrive on them; ConSan looks at the one that was waited for"
_STORE = "the last line starts a TMA store that nobody waits for"

FOUND: dict[str, str] = {
    "gluon-07-overlapped-90": _AHEAD,
    "gluon-07-overlapped-100": _AHEAD,
    "gluon-08-matmul": "the epilogue steps on to the next accumulator, and then frees that one",
    "gluon-09-matmul": _AHEAD,
    "gluon-12-static": "the kernel takes rows for columns: wrong for a result that is not square; the tutorial tests square ones",
    "gluon-14-two-ctas": _STORE,
    "gluon-14-multicast": _STORE,
    "gluon-14-loop": _STORE,
    "consan-tma_wait_does_not_publish_overwritten_row-WAIT_LATEST":
        "two loads of the same bytes into one buffer, and a wait for the second: the first may still be writing what is read",
    "consan-tma_store": "two TMA stores to the same bytes of global memory, in no order; ConSan looks at shared memory",
    "consan-tcgen5_mma_multibar-0-1": _UNUSED,
    "consan-tcgen5_mma_multibar-0-2": _UNUSED,
    "consan-tcgen5_mma_multibar-1-2": _UNUSED,
    "consan-ws_async_copy_wait_visibility": _COPY,
    "consan-aliasing_commit_tracking-MISSING_WAIT": _COPY,
}
NOT_TAKEN = {
    "gluon-05-overlapped": "the loop's accumulator is a tile before the first warpgroup_mma and a product under way behind it",
    "gluon-07-stealing-100": "it takes one buffer of B for a tile of C that is twice as large, which 3.9 refuses",
    "gluon-12-launch-control": "gl.int128, the type of the buffer for the result, is gone",
}
