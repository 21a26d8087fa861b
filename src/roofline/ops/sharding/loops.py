"""The loops of an operation, by family: a mesh axis may shard one of them.

A loop is a label of the operands and of the result. Each chip runs its part of a sharded loop. Where the loop sums, the
results are partial sums.

>>> from roofline.notation import program
>>> for loop in loops_of(program("bf16[B, D] * bf16[D, F]").steps[0]):
...     print(loop.labels, loop.result)
('B', None) B
('D', 'D') {U}
(None, 'F') F

Chips that share the rows of a softmax or a norm exchange statistics of each row, such as its largest entry and a sum.
Chips that share the keys of an attention do so too: their results add up once they have the same scale.

>>> loops_of(program("softmax_T(bf16[B, N, T])").steps[0])[-1]
Loop(labels=('T',), result='T', statistics=2)

Every other dimension is whole on every chip: the image of a convolution, the sequence of causal attention. (A single
query is the last position, which sees every key, so its keys may be sharded.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roofline.frozen import NamedTuple
from roofline.notation.functions import FUNCTIONS
from roofline.notation.structure import Step
from roofline.ops.sharding.layout import UNREDUCED, State


class Loop(NamedTuple):
    """A loop: its label in each operand (None where it is absent), and the state of the result if it is sharded.

    ``statistics`` is how many numbers of each row chips exchange when they share it.
    """

    labels: tuple[State, ...]
    result: State
    statistics: int = 0


#: Reductions whose partial results over parts combine by the same reduction.
_COMBINING = ("sum", "mean", "max", "min", "prod", "norm")

#: Numbers of a row that chips exchange when they share it, by function. With them each chip finishes its part.
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
    """Loops that have one name in all tensors."""
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
    """Loops of an operation that treats entries separately: the labels of the result that it does not work along.

    The labels it works along are loops too where an exchange of statistics is enough.
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
    """Batch and heads, with the fewer heads of keys and values; queries and keys where every query sees every key."""
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
    """The indices, the width, and the rows: each chip looks up its own rows and writes zeros for the others."""
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
    """Say whether partial sums of the operands give partial sums of the result, as in sums and differences."""
    return step.kind == "elementwise" and step.function in ("add", "subtract")
