"""Operations on sharded arrays: what each chip does to its part, and the collectives around it.

::

    layout.py    which mesh axis shards which dimension; the part of a tensor that one chip holds
    loops.py     what a mesh axis may shard in each family of operations
    moves.py     from one layout to another: slices and collectives
    choices.py   for one operation: every role its mesh axes may play, and the moves that takes
    plans.py     a choice for every operation of a program, the least to send first
    order.py     whether a plan leans on the order of the axes of one dimension
    local.py     a plan and sizes → operations with local sizes, and collectives
"""
