"""The machine with a clock: the same program in the time that a cost model says, without the tiles' values.

Input: a program, its arguments and a chip's `Model`. Output: a trace in cycles. For example:

    machine.TimedMachine(program, grid, arguments, memory, model, Conditions(1755, 132), needed, order, slots=1).run()
"""
