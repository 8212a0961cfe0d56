"""Raw functions whose code is a Python body in the words of MLIR's dialects, read and never run (docs/RAW.md).

Input: a function under `@tle.raw.dialect(name="mlir")` or `@tle.raw.language(name="mlir")`, and a call in a kernel. Output:
ordinary ops of
`mimw.ir`, done for all threads at once. For example:

    @tle.raw.dialect(name="mlir")
    def double(x: tle.raw.InOut["memref<?xf32, 3>"]):
        i = arith.index_cast(ir.IndexType.get(), nvvm.read_ptx_sreg_tid_x())
        memref.store(arith.addf(memref.load(x, [i]), memref.load(x, [i])), x, [i])

    tile = tle.raw.call(double, [tile])         local_alloc, store, .., local_ptr, load, fadd, store, .., load

`function` is the declared function, `call` the call of the seed's form, `walker` reads a body, each other file is a dialect.
"""
