"""The row that a tutorial prints on a GPU: checked, and measured in turn with its baseline."""

import ctypes
from collections.abc import Callable

from mimw.testing.benchmark import Row, alternate, versions


def measured(name: str, shape: dict, configuration: dict, run: Callable, baselines: dict[str, Callable], out, expected,
             flops: float, allowed: float, moved: float = 0) -> str:
    """One line: microseconds and TFLOP/s of `run` and of each baseline, and the error of `out`, which `run` fills.

    args:      expected   what `out` should be, in any float type
               flops      of one call; 0 if only memory counts
               allowed    largest ||out - expected|| / ||expected||; more is an AssertionError, so nothing wrong is timed
               moved      bytes read and written by one call; where given, GB/s stand in place of TFLOP/s
    """
    import torch
    out.fill_(float("nan"))
    run()
    torch.cuda.synchronize()
    error = ((out.double() - expected.double()).norm() / expected.double().norm()).item()
    assert error < allowed, f"{name}: error {error:.2e} is more than {allowed:.0e}"
    times = alternate({"mimw": run, **baselines})
    row = Row(name, shape, configuration, times.pop("mimw"), times, error, "standard normal",
              torch.cuda.get_device_name(), versions())
    others = ", ".join(f"{other} {time:.1f} us {_rate(flops, moved, time)} (ratio {row.ratios()[other]:.3f})"
                       for other, time in row.baselines.items())
    return (f"{name} {row.shape}: {row.microseconds:.1f} us {_rate(flops, moved, row.microseconds)}; {others}; "
            f"error {error:.1e}; {row.chip}, torch {row.versions.get('torch')}, {row.date}")


def _rate(flops: float, moved: float, microseconds: float) -> str:
    return f"{moved / microseconds / 1e3:.0f} GB/s" if moved else f"{flops / microseconds / 1e6:.0f} TFLOP/s"


class _LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of the CUDA driver API."""
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint)]


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute, as long as the cluster's extents are the value."""
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


def resident_clusters(kernel, size: int) -> int:
    """How many clusters of `size` CTAs of a compiled kernel, as a launch returns it, the GPU runs at a time.

    Fewer than its SMs have room for: a cluster stays within one GPC, and GPCs differ in their number of SMs.
    """
    attribute = _Attribute(4, 0, (ctypes.c_uint * 16)(size, 1, 1))  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    config = _LaunchConfig((size, 1, 1), (32 * kernel.metadata.num_warps, 1, 1), kernel.metadata.shared, None,
                           ctypes.addressof(attribute), 1)
    clusters = ctypes.c_int()
    ask = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveClusters
    failed = ask(ctypes.byref(clusters), ctypes.c_void_p(kernel.function), ctypes.byref(config))
    assert not failed, f"cuOccupancyMaxActiveClusters gives error {failed}"
    return clusters.value
