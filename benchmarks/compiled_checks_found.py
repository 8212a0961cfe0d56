"""What `compiled_checks` found in published kernels, and which of them Triton 3.9 does not compile.

    FOUND["gluon-08-matmul"]        what is wrong there; docs/BUGS.md has it in full

Input: nothing. Output: sentences by the names of cases.
"""

FOUND: dict[str, str] = {}
NOT_TAKEN = {
    "gluon-05-overlapped": "the accumulator of a loop changes its type, before and after the first warpgroup_mma",
    "gluon-07-stealing": "shared_memory_descriptor has no _reinterpret",
    "gluon-12-launch-control": "gl.int128, the type of the result's buffer, is gone",
    "triton-06-attention-pointers": "block pointers are gone",
    "triton-09-tma": "tl._experimental_descriptor_load is gone",
}
