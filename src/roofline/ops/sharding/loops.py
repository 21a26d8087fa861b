"""What a mesh axis may shard in an operation: its loops, by family.

A loop is a label of the operands and of the result. Sharded, each chip runs its part of the loop; where the loop sums,
that leaves partial sums.

>>> from roofline.notation import program
>>> for loop in loops_of(program("bf16[B, D] * bf16[D, F]").steps[0]):
...     print(loop.labels, loop.result)
('B', None) B
('D', 'D') {U}
(None, 'F') F

A softmax or a norm along a dimension that is sharded exchanges what it knows of each row (its largest entry and a sum),
and so does attention whose keys are: each chip has a part of them, and the results add up once they are scaled alike.

>>> loops_of(program("softmax_T(bf16[B, N, T])").steps[0])[-1]
Loop(labels=('T',), result='T', statistics=2)

What is no loop of an operation is whole on every chip: a convolution's image, the sequence of causal attention (of
more than one query: a single one is the last position, which sees every key).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from roofline.notation.functions import FUNCTIONS
from roofline.notation.structure import Step
from roofline.ops.sharding.layout import UNREDUCED, State


class Loop(NamedTuple):
    """A loop: its label in each operand (None where it does not stand), and what sharding it makes of the result.

    ``statistics`` are the numbers a row that chips tell each other when they share it.
    """

    labels: tuple[State, ...]
    result: State
    statistics: int = 0


#: Reductions whose partial results over parts combine by the same reduction.
_COMBINING = ("sum", "mean", "max", "min", "prod", "norm")

#: What chips tell each other of a row that they share, by function: with it each finishes its part or a partial result.
STATISTICS = {
    "softmax": ("the largest entry", "a sum"),
    "log_softmax": ("the largest entry", "a sum"),
    "layer_norm": ("a sum", "a sum of squares"),
    "rms_norm": ("a sum of squares",),
    "attention": ("the largest score", "a sum"),
    "logsumexp": ("the largest entry",),
    "argmax": ("the largest entry",),
    "argmin": ("the smallest entry",),
    "variance": ("a sum",),
}

#: Reductions of which partial results do not add up, though they combine.
NO_SUMS = ("max", "min", "prod", "argmax", "argmin", "logsumexp", "norm")


def loops_of(step: Step) -> tuple[Loop, ...]:
    """List the loops of an operation that a mesh axis may shard."""
    family = FUNCTIONS[step.function].family if step.kind == "function" else step.kind
    return tuple(_FAMILIES.get(family, _apart)(step))


def _named(step: Step, labels: Sequence[str], summed: Sequence[str] = (), statistics: int = 0) -> list[Loop]:
    """Loops that go by one name in every tensor they stand in."""
    return [
        Loop(
            tuple(label if label in shape.labels else None for shape in step.inputs),
            UNREDUCED if label in summed else label,
            statistics,
        )
        for label in dict.fromkeys(labels)
    ]


def _contraction(step: Step) -> list[Loop]:
    return _named(step, [label for shape in step.inputs for label in shape.labels], step.contracted)


def _apart(step: Step) -> list[Loop]:
    """Loops of what treats the entries along a label apart: those of the result that it does not work along.

    Those it works along are loops too where statistics of each row are all it takes.
    """
    loops = _named(step, [x for x in step.output.labels if x not in step.over and _stands(step, x)])
    statistics = len(STATISTICS.get(step.function, ()))
    return [*loops, *(_named(step, step.over, statistics=statistics) if statistics else ())]


def _stands(step: Step, label: str) -> bool:
    return any(label in shape.labels for shape in step.inputs)


def _reduction(step: Step) -> list[Loop]:
    statistics = len(STATISTICS.get(step.function, ()))
    summed = step.over if step.function in _COMBINING or statistics else ()
    kept = [x for x in step.inputs[0].labels if x not in step.over]
    return [*_named(step, kept), *_named(step, summed, summed, statistics)]


def _attention(step: Step) -> list[Loop]:
    """Batch and heads (the fewer heads of keys and values with them); queries and keys where all see all."""
    q, k, v = (shape.labels for shape in step.inputs)
    loops = [Loop((q[-2], k[-2], v[-2]), q[-2])]
    if len(q) == 4:
        loops.append(Loop((q[0], k[0], v[0]), q[0]))
    if not step.options.get("causal") and step.options.get("window") is None and q[-3] not in k:
        loops.append(Loop((q[-3], None, None), q[-3]))
        if k[-3] == v[-3] not in q:
            loops.append(Loop((None, k[-3], v[-3]), UNREDUCED, len(STATISTICS["attention"])))
    return [loop for loop in loops if loop.result in (*step.output.labels, UNREDUCED)]


def _convolution(step: Step) -> list[Loop]:
    """Batch, and the output channels of the kernel where there are no groups."""
    x, kernel, *_ = step.inputs
    labels = [x.labels[0]]
    if step.options.get("groups", 1) == 1 and "depthwise" not in step.options:
        labels.append(kernel.labels[-1])
    return _named(step, [label for label in labels if label in step.output.labels])


def _pooling(step: Step) -> list[Loop]:
    labels = step.inputs[0].labels
    return _named(step, [label for label in (labels[0], labels[-1]) if label in step.output.labels])


def _embedding(step: Step) -> list[Loop]:
    """The indices, the width, and the rows: each chip looks up those it has and writes zeros for the others."""
    table, indices = step.inputs
    loops = _named(step, [x for x in (*indices.labels, table.labels[-1]) if x in step.output.labels])
    rows = table.labels[0]
    return loops if rows in indices.labels else [*loops, Loop((rows, None), UNREDUCED)]


_FAMILIES: dict[str, Callable[[Step], list[Loop]]] = {
    "contraction": _contraction,
    "reduction": _reduction,
    "attention": _attention,
    "convolution": _convolution,
    "pooling": _pooling,
    "embedding": _embedding,
}


def stays_partial(step: Step) -> bool:
    """Say whether an operation of partial sums gives the partial sums of its result: sums and differences do."""
    return step.kind == "elementwise" and step.function in ("add", "subtract")
