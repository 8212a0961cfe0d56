"""The kernel library, written as an outside user would write a library: with public names only.

Input: torch tensors of a GPU, or numpy arrays for the simulator. Output: the result of a call, or the arguments of a
launch:

    from mimw.kernels.gemm import matmul
    c = matmul(a, b)
"""
