"""Tutorial 11 on the simulator and the GPU, also where K is shorter than the pipeline; and its "what if" edits."""

import pytest
import triton

from .gemm import checked, finds, run_and_compare

SMALL = dict(BM=64, BN=64, num_warps=4)


@pytest.mark.parametrize("shape", [(128, 128, 256), (64, 192, 64), (72, 136, 200), (8, 8, 8)])
def test_product(machine, tutorial, shape):
    run_and_compare(machine, tutorial, shape, 0, **SMALL)


def test_right_under_every_interleaving(tutorial):
    report = checked(tutorial, (64, 64, 320), 0, **SMALL)
    assert report.ok, report


def test_released_too_early(edited):
    with pytest.raises(triton.CompilationError, match="may still read the slot"):
        run_and_compare(_Simulated(), edited("reader.release(chunk - 1)", "reader.release(chunk)"), (64, 64, 256), 0, **SMALL)


@pytest.mark.parametrize("old, new, kind", [
    ("        if chunk > 0:\n            reader.release(chunk - 1)\n", "", "TooFewArrivals"),
    ("            fetch(writer, chunk + STAGES - 1,", "            fetch(writer, chunk + STAGES,", "WaitCycle")],
    ids=["no release", "one left out"])
def test_what_if(edited, old, new, kind):
    assert finds(kind, edited(old, new), (64, 64, 512), 0, **SMALL)


class _Simulated:

    def launch(self, kernel, grid, *args, **meta):
        import mimw
        mimw.simulate(kernel, grid, *args, **meta)
