"""The compiler: from the source of a kernel to what Triton's backend takes.

Input: a JIT function and one specialisation of it. Output: TTGIR, and what stock Triton makes of it. The folders in the order in
which a kernel passes through them:

    frontend        Python source to IR without layouts
    passes          checks and rewrites of IR, with `analysis` and `storage` to ask
    constraints     a layout for every tile and buffer
    lowering        TTGIR, one emission an op; `native` for code of the author
    pipeline        these stages in order, the source that Triton compiles, the keys of caches
    triton_port     the only door to Triton's private modules
"""
