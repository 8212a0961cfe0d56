"""What ptxas says about a kernel."""

from __future__ import annotations

import subprocess

from triton import knobs


def assembled(ptx: str, tmp_path, chip: str = "sm_90a") -> str:
    """What `ptxas -v` for a chip prints: registers, spills, warnings."""
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx)
    command = [knobs.nvidia.ptxas_blackwell.path, "-v", f"--gpu-name={chip}", str(source), "-o", str(tmp_path / "kernel.cubin")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr
