"""The runtime: what stands between a call of a kernel and the compiler, the GPU or the simulator.

Input: a decorated function and the arguments of a launch. Output: the launch, on a GPU or simulated. For example:

    jit.py          `mimw.jit`: specialise, compile, cache, launch
    simulate.py     `mimw.simulate`: the same launch on numpy
    freeze/         a launch specialised once
    export/         a launch as a cubin with a C header
"""
