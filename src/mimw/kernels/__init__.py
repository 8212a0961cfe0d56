"""The kernel library, written as an outside user would write a library: with public names only.

Input: torch tensors of a GPU, or numpy arrays for the simulator. Output: the arguments of a launch. Each package has a `CONTRACT`,
which checks them (`mimw.kernels.contract`); operators of torch are `mimw.ops`. For example:

    from mimw.kernels import gemm
    grid, args, meta = gemm.arguments(a, b, c, programs=132)
    gemm.kernel[grid](*args, **meta)
"""
