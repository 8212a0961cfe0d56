"""Our targets under Triton's names, and back.

    gpu_target(target("sm_90a"))        GPUTarget("cuda", 90, 32)
    chip_of(GPUTarget("cuda", 90, 32))  the Target sm_90a
    device_numbers(target("sm_90a"))    {"max_shared_mem": 232448, "multiprocessor_count": 132, ...}

Input and output: a `Target` of ours, or the `GPUTarget` by which Triton's compiler and driver call the same chip.
"""

from __future__ import annotations

from ...target import Target
from ...target import target as find_target
from ..triton_port.runtime import GPUTarget


def gpu_target(chip: Target) -> GPUTarget:
    """Triton's name for one of our targets."""
    return GPUTarget(chip.backend, chip.arch, chip.warp_size)


def chip_of(gpu: GPUTarget) -> Target:
    """Our facts about one of Triton's targets."""
    return find_target(f"sm_{gpu.arch}" if gpu.backend == "cuda" else str(gpu.arch))


def device_numbers(chip: Target) -> dict[str, int | str]:
    """The known numbers of a target's device, by the names of Triton's `driver.active.utils.get_device_properties`."""
    numbers = {"max_shared_mem": chip.shared_bytes, "max_num_regs": chip.registers_per_cta, "warpSize": chip.warp_size}
    if chip.backend == "ascend":    # the names that code for Ascend reads; each cube core has two vector cores at its side
        numbers |= {"num_aicore": chip.multiprocessors, "num_vectorcore": 2 * chip.multiprocessors}
    if chip.multiprocessors:
        numbers["multiprocessor_count"] = chip.multiprocessors
    return numbers | ({"arch": chip.name} if chip.backend == "hip" else {})
