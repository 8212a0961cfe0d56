"""Tutorial 13 on the simulator and the GPU: nothing, everything or some of it kept, in the last block too."""

import numpy as np
import pytest


@pytest.mark.parametrize("n, threshold", [(5000, 0.0), (1024, -9.0), (1000, 9.0), (3000, 1.5)])
def test_kept_in_order(machine, tutorial, n, threshold):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    blocks = -(-n // 1024)
    y, counts, starts = np.zeros_like(x), np.zeros(blocks, np.int32), np.zeros(blocks + 1, np.int64)
    tutorial.compact(machine.launch, x, y, counts, starts, threshold, n, BLOCK=1024)
    kept = x[x > threshold]
    assert starts[-1] == kept.size and (y[:kept.size] == kept).all() and not y[kept.size:].any()


def test_main(tutorial, capsys):
    tutorial.simulate_one()
    said = capsys.readouterr().out
    assert "checked: ok" in said and "equal to numpy: True" in said
