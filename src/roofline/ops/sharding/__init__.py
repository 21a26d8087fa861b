"""Operations on sharded arrays: the work of each chip on its part, and the collectives around it.

::

    layout.py    which mesh axis shards which dimension; moves from one layout to another: slices and collectives
    loops.py     the loops of each family of operations, which a mesh axis may shard
    choices.py   the ways to do one operation: a role for each mesh axis, and the moves that it takes
    plans.py     a choice for every operation of a program, those that send least first
    costs.py     the time of every choice
    local.py     a plan and sizes → operations with local sizes, and collectives
"""
