"""Operations on sharded arrays: the work of each chip on its part, and the collectives around it.

::

    layout.py    which mesh axis shards which dimension; moves from one layout to another; loops that an axis may shard
    plans.py     the ways to do one operation, and a choice for every one of a program, those that send least first
    local.py     a plan and sizes → operations with local sizes, and collectives; the time of every choice
"""
