"""The machine with a clock: the same program in the time that a cost model says, without the tiles' values."""
