"""The shelf of kernels that several tests run, one idea a file; and, in test_*.py, the tests of the library's kernels.

A kernel that one test module runs stands in that module. One that a second module runs, or a document or a benchmark, and a whole
file of kernels, stand here; the docstring of each file says what the kernels do, on which shapes, and which mistake they can plant:

    from tests.kernels.tma_pipeline import pipeline, pipeline_arguments
    grid, args, meta = pipeline_arguments(RELEASE_FIRST=True)
    mimw.check(pipeline, grid, *args, **meta)               # OperandOverwritten
"""
