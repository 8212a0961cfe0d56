"""The row that a tutorial prints on a GPU: checked, and measured in turn with its baseline."""

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
