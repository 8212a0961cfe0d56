"""A program as the text of a kernel: the parts of `orchestrate/text.py`.

Input: a program, op by op. Output: lines of Python. The files:

    texts.py            a value's text: its precedence, the sign that Triton gives it, literals and names of types
    inlining.py         which ops stand inside others, and where each value is read
    names.py            names for values: the author's, each once
    holders.py          names that mean another value from a line on
    signs.py            signs of what arguments point to, and of buffers' elements
    lines.py            lines, broken where they are too long
    writer.py           the state while a kernel is written
    rows.py             the tables of what each op is in text
    shapes.py           which tiles Triton spreads by itself
    arithmetic.py, casts.py, tiles.py, memory.py, descriptors.py, products.py, words.py       ops
    flow.py, regions.py, pipes.py      loops, branches and tasks; functions of reductions; pipes
"""
