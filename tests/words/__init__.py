"""Each word against a reference of a few lines, the same case on the simulator and on the GPU."""
