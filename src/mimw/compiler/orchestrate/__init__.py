"""Automatic orchestration: an ordinary kernel's program in, the same work in tasks with pipes out.

Input: the program of a kernel that nobody has orchestrated, and a `Plan`. Output: a program with a producer task that loads,
consumer tasks that compute, and a pipe for each group of loads; and that program as text, which records again to the same one. The
files, in the order in which a program goes through them:

    branches.py     plain to plain: a branch that all programs of a launch take alike is taken once;
                    known_branches.py: one that the kernel's own numbers decide
    boxes.py        plain to plain: loads and stores by pointers become loads and stores by descriptors that the host makes
    box_host.py     .. and the host's part of them as Python: the arguments of a launch, and whether it may take them
    one_address.py  .. and loads whose elements all have one address become one load
    boxes_of_groups.py  plain to plain: .. or that the kernel makes, of numbers that it loads; asked_in_kernel.py has its questions
    wide_stores.py  .. and stores of places that the kernel loads write 16 bytes at a time, where it finds that it may
    gathers.py      which of the other loads a producer may copy by cp.async; lags.py: how many of these copies are in flight
    needed_ops.py   plain to plain: what no effect needs is left out
    persist.py      plain to plain: a few programs take the tiles of the grid in turn; authors_tiles.py: they do already
    tile_orders.py  .. in which order: rows of tiles, columns, or bands of some rows
    delay.py        plain to plain: a product that only adds to what goes round a loop is done a trip later
    late_products.py    which product of a loop that is, or why there is none
    together.py     plain to plain: several trips in one body, each product beside what the trip before does with its own
    small_loads.py  plain to plain: small loads of loops with products run a trip ahead
    rings.py        which loads share a pipe, how deep it is, and when a slot is given back, by
    tiles_read.py       where their tiles are read,
    running_on.py       products that run on into the next trip,
    held.py             slots that loops inside read,
    residency.py        and what a program may take if a multiprocessor holds several
    transforms.py   which tiles a task between producer and consumers may compute; that task is transformer.py's
    tasks.py        program and plan to tasks and pipes: producer.py, consumer.py, both by rebuild.py; with
    turns.py            consumers that start products in turn, tiles_in_turn.py: that have whole tiles in turn
    slots_of_descriptors.py     descriptors that the producer makes inside of a loop
    emission.py     .. or, on a chip with tensor memory, to the tasks of tensor_tasks.py:
    tensor_work.py      .. of which each one's share is found here, by
    tensor_products.py  which products tcgen05 does, and which loads it reads where they lie
    tensor_sums.py      which products add up in one place, where that begins, and who reads it
    handovers.py        tiles that a task computes and the tensor core takes
    phases.py           slots and parities of what is used in turn
    fetcher.py, multiplier.py, epilogue.py      the task that loads, that multiplies, and that computes
    smaller_blocks.py   the descriptors that get a block of a consumer's rows
    text.py         a program as the text of a module, by the files of writing/
    comments.py     what each word of a pipe orders, in words
"""
