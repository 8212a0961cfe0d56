"""LayerNorm and RMSNorm for Hopper, with a residual added on the way: bf16, fp16 and fp32, rows of any length, statistics in fp32.

Input: x (rows, N), and optionally weight (N), bias (N), residual (rows, N). Output: y (rows, N), and with a residual the sum. For
example:

    layer_norm(x, weight, bias)                     y, of a torch tensor of a GPU
    y, total = rms_norm(x, weight, residual=r)      total = x + r, y = total / sqrt(mean square of its rows + eps) weight
    arguments(x, weight, bias, y)                   (kernel, grid, args, meta) of a launch or `mimw.simulate`, numpy or torch
"""

from __future__ import annotations

from ..checks import of_rank, on_one_gpu
from .configs import Configuration, configuration, direct_configuration, ring_configuration
from .direct import norm_direct
from .kernel import norm as kernel

TYPES = ("float16", "bfloat16", "float32")
REGISTERS = 65536   # of an SM
UNIT_BYTES = 16     # what bulk copies move

__all__ = ["Configuration", "arguments", "configuration", "direct_configuration", "kernel", "layer_norm", "norm_direct",
           "ring_configuration", "rms_norm"]


def arguments(x, weight, bias, y, residual=None, total=None, mean=None, rstd=None, eps: float = 1e-5, centred: bool = True,
              chosen: Configuration | None = None, room: int | None = None, counter=None) -> tuple:
    """(kernel, grid, args, meta) of the launch that normalises the rows of x, or of x + residual.

    args:      x         (rows, N), columns contiguous, fp16, bf16 or fp32
               weight    (N), bias (N): contiguous, of any of these types, or None
               y         (rows, N), columns contiguous, of any of these types
               residual  (rows, N) or None; total (rows, N) takes x + residual, rounded to its type, from which y is computed
               mean      (rows), rstd (rows): fp32 or None, filled with the mean and 1 / sqrt(variance + eps)
               centred   LayerNorm; else RMSNorm, whose mean is not taken off
               chosen    by default the one for rows, N and type
               room      clusters that the GPU runs at a time; by default those of an H200
               counter   (1) int32, 0 before and after a launch, for configurations whose rows are drawn; without it they take
                         equal shares. One launch at a time may use it
    errors:    ValueError where a shape, a type or a stride does not fit, with the numbers
    """
    of_rank(2, x=x, y=y)
    rows, n = map(int, x.shape)
    if (residual is None) != (total is None):
        raise ValueError("residual and total go together: total takes x + residual")
    matrices = {"x": x, "y": y} | ({} if residual is None else {"residual": residual, "total": total})
    vectors = {name: array for name, array in (("weight", weight), ("bias", bias)) if array is not None}
    for name, array in (matrices | vectors).items():
        if type_of(array) not in TYPES:
            raise ValueError(f"{name} is {array.dtype}; it may be {', '.join(TYPES)}")
    for name, matrix in matrices.items():
        if tuple(matrix.shape) != (rows, n):
            raise ValueError(f"{name} must be {rows} x {n} as x is, it is {' x '.join(map(str, matrix.shape))}")
        if n > 1 and strides_of(matrix)[1] != 1:
            raise ValueError(f"the columns of {name} must be contiguous; they are {strides_of(matrix)[1]} elements apart")
    for name, vector in vectors.items():
        if tuple(vector.shape) != (n, ) or n > 1 and strides_of(vector)[0] != 1:
            raise ValueError(f"{name} must be {n} contiguous elements; its shape is {tuple(vector.shape)}, its strides "
                             f"{strides_of(vector)}")
    for name, statistic in (("mean", mean), ("rstd", rstd)):
        if statistic is not None and (tuple(statistic.shape) != (rows, ) or type_of(statistic) != "float32"):
            raise ValueError(f"{name} must be {rows} fp32 numbers; it is {statistic.dtype} of shape {tuple(statistic.shape)}")
    unit = UNIT_BYTES // min(array.dtype.itemsize for array in (x, residual, weight, bias) if array is not None)
    steps = [strides_of(matrix)[0] for matrix in (x, residual, y, total) if matrix is not None]
    bulk = n % unit == 0 and not any(step % unit for step in steps) and not any(
        address(array) % UNIT_BYTES for array in (*matrices.values(), *vectors.values()))
    if chosen is None:
        kept = sum(vector.dtype.itemsize for vector in vectors.values())
        chosen = configuration(rows, n, x.dtype.itemsize, 1 if residual is None else 2, kept, bulk)
    x_row, residual_row, y_row, total_row = (0 if matrix is None else strides_of(matrix)[0] for matrix in (x, residual, y, total))
    arrays = x, residual, weight, bias, y, total, mean, rstd
    meta = dict(CLUSTER=chosen.ctas, CENTRED=centred, num_warps=chosen.warps)
    if chosen.ctas > 1:
        meta["ctas_per_cga"] = (chosen.ctas, 1, 1)
    if chosen.form == "direct":
        if n > chosen.ctas * chosen.chunk * chosen.chunks:
            raise ValueError(f"rows of {n} elements do not fit: {chosen.ctas} x {chosen.chunk} x {chosen.chunks} do")
        grid = chosen.ctas * -(-rows // chosen.rows)
        meta |= dict(ROWS_EACH=chosen.rows, BLOCK=chosen.chunk, LOOPS=chosen.chunks, EARLY=chosen.early)
        if chosen.early:
            meta["launch_pdl"] = True
        return norm_direct, (grid, ), (*arrays, rows, n, x_row, residual_row, y_row, total_row, eps), meta
    if not bulk:
        raise ValueError(f"bulk copies move multiples of {UNIT_BYTES} bytes from addresses that are such; rows of {n} elements, "
                         f"{steps} apart, are not: choose the direct form")
    if not chosen.chunk <= n <= chosen.ctas * chosen.chunk * chosen.chunks:
        raise ValueError(f"rows of {n} elements do not fit: the ring takes {chosen.chunk} to {chosen.ctas} x {chosen.chunk} x "
                         f"{chosen.chunks}")
    meta |= dict(UNIT=unit, CHUNK=chosen.chunk, CHUNKS=chosen.chunks, STAGES=chosen.stages, CONSUMERS=chosen.consumers,
                 KEEP=chosen.keep, EVEN=n == chosen.ctas * chosen.chunk * chosen.chunks)
    if chosen.resident > 1:
        threads = 32 * (chosen.warps * chosen.consumers + 4)
        meta["maxnreg"] = REGISTERS // (threads * chosen.resident) // 8 * 8
    units = (step // unit for step in (n, x_row, residual_row, y_row, total_row))
    drawn, clusters = counter if chosen.drawn and chosen.stages % chosen.consumers == 0 else None, chosen.clusters(rows, room)
    meta["BEHIND"] = min(chosen.behind, chosen.stages, rows // clusters)
    meta["HEAD"] = 0 if drawn is None else min(chosen.stages, rows // clusters)
    return kernel, (chosen.ctas * clusters, ), (*arrays, drawn, rows, *units, eps), meta


def type_of(array) -> str:
    return str(array.dtype).removeprefix("torch.")


def strides_of(array) -> tuple[int, ...]:
    """Strides in elements of a numpy or torch array."""
    if hasattr(array, "strides"):
        return tuple(step // array.itemsize for step in array.strides)
    return tuple(array.stride())


def address(array) -> int:
    """Where a numpy or torch array begins."""
    return array.data_ptr() if hasattr(array, "data_ptr") else array.__array_interface__["data"][0]


def layer_norm(x, weight=None, bias=None, eps: float = 1e-5, residual=None, out_dtype=None, chosen: Configuration | None = None):
    """LayerNorm of the rows of x (rows, N) on the GPU that holds them; with a residual (y, x + residual). As `arguments`."""
    return _call("layer_norm", x, weight, bias, eps, residual, out_dtype, True, chosen)


def rms_norm(x, weight=None, bias=None, eps: float = 1e-6, residual=None, out_dtype=None, chosen: Configuration | None = None):
    """RMSNorm of the rows of x (rows, N) on the GPU that holds them; with a residual (y, x + residual). As `arguments`."""
    return _call("rms_norm", x, weight, bias, eps, residual, out_dtype, False, chosen)


def _call(name, x, weight, bias, eps, residual, out_dtype, centred, chosen):
    import torch
    given = {"x": x, "weight": weight, "bias": bias, "residual": residual}
    on_one_gpu(name, **{what: tensor for what, tensor in given.items() if tensor is not None})
    of_rank(2, x=x)
    y = torch.empty(x.shape, dtype=out_dtype or x.dtype, device=x.device)
    total = None if residual is None else torch.empty(x.shape, dtype=torch.promote_types(x.dtype, residual.dtype), device=x.device)
    counter = torch.zeros(1, dtype=torch.int32, device=x.device)
    launch, grid, args, meta = arguments(x, weight, bias, y, residual, total, None, None, eps, centred, chosen, counter=counter)
    launch[grid](*args, **meta)
    return y if residual is None else (y, total)
