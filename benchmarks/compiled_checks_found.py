"""What `compiled_checks` found in published kernels, and which of them Triton 3.9 does not compile.

    FOUND["gluon-08-matmul"]        what is wrong there; docs/BUGS.md has it in full

Input: nothing. Output: sentences by the names of cases.
"""

FOUND: dict[str, str] = {}
NOT_TAKEN = {
    "gluon-05-overlapped": "the loop's accumulator is a tile before the first warpgroup_mma and a product under way behind it",
    "gluon-07-stealing": "it takes one buffer of B for a tile of C that is twice as large, which 3.9 refuses",
    "gluon-12-launch-control": "gl.int128, the type of the buffer for the result, is gone",
}
