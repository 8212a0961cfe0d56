"""Several ranks on one real GPU, which runs them in turns: the host side, the words and the operators as on several GPUs.

    MIMW_SHARE_GPUS=1 pytest -m gpu --forked 0 tests/several_gpus

They want the GPU for themselves, so only who says so runs them: beside other tests their turns come too late.

What it shows: addresses, protocols, plans and binaries of 2 and of 4 ranks. What GPUs apart show alone: what NVLink reorders; time.
"""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(os.environ.get("MIMW_SHARE_GPUS") != "1", reason="want the GPU for themselves")]
LIMIT = 170     # seconds


CASES = (2, "words"), (4, "words"), (4, "sharded"), (2, "operators"), (4, "operators"), (4, "ring")


@pytest.mark.parametrize("ranks, module", CASES)
def test_ranks_on_one_gpu(ranks, module):
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m",
           f"tests.several_gpus.{module}"]
    found = subprocess.run(run, env={**os.environ, "LIMIT": str(LIMIT)}, capture_output=True, text=True, timeout=LIMIT + 30)
    assert found.returncode == 0 and "right" in found.stdout and "WRONG" not in found.stdout, found.stdout + found.stderr


def test_faults_at_two_ranks_of_one_gpu():
    found = subprocess.run([sys.executable, "-m", "tests.faults", "--slower", "3"], capture_output=True, text=True, timeout=400)
    assert found.returncode == 0 and "9 of 9 faults ended as they should" in found.stdout, found.stdout + found.stderr
