"""The kernel library against numpy, the same cases on the simulator and on the GPU."""
