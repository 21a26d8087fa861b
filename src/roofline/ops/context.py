"""What a cost rule is told beside the step itself: sizes of labels and the conventions of counting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from roofline.frozen import Frozen
from roofline.notation.structure import Shape, Step
from roofline.sizes import Size, product
from roofline.work import Op, Tensor


class Context(NamedTuple):
    """Sizes by label, and how to count.

    ``exact`` counts one add fewer than multiplies. ``count_padding`` counts the positions a convolution pads.
    ``compute`` is the arithmetic dtype of every operation, where the caller chose one. ``ways`` says over how many
    chips a label of an operand is split, of which ``sizes`` has the part of one.
    """

    sizes: Mapping[str, Size]
    exact: bool = False
    count_padding: bool = True
    compute: str | None = None
    ways: Mapping[str, Size] = Frozen({})

    def size(self, labels: Iterable[str]) -> Size:
        """Multiply the sizes of labels; none gives 1."""
        return product(self.sizes[label] for label in labels)

    def tensor(self, shape: Shape, role: str = "activation") -> Tensor:
        """Make the tensor of a shape."""
        dims = tuple(self.sizes[label] for label in shape.labels)
        return Tensor(shape.ident, dims, shape.dtype, role, label=shape.written)

    def written_to(self, op: Op, shape: Shape) -> Op:
        """Say which tensor an operation writes whose sizes it has worked out itself."""
        (result,) = op.writes
        return replace(op, writes=(Tensor(shape.ident, result.dims, shape.dtype, label=shape.written),))

    def arithmetic(self, step: Step) -> str:
        """The arithmetic dtype of a step."""
        return self.compute or step.compute


#: Turns a resolved step into an operation; sizes the rule derives are those of the operation's first result.
Rule: TypeAlias = Callable[[Step, Context], Op]


def weight_or_activation(shape: Shape) -> str:
    """The role of an operand that is a parameter when it comes from outside (a scale, a kernel, a bias)."""
    return "weight" if shape.source == "input" else "activation"


def positions(step: Step) -> tuple[int, ...]:
    """Where the labels a step works along stand in its first operand."""
    labels = step.inputs[0].labels
    return tuple(labels.index(label) for label in step.over)


def like(x: Tensor, name: str, dims: Sequence[Size] | None = None, dtype: str | None = None) -> Tensor:
    """Make the result of ``name`` applied to ``x``: its dimensions and format unless others are given.

    >>> like(Tensor("x", (4, 8), "bf16"), "sum", dims=(4,))
    Tensor(ident='sum(x)', dims=(4,), dtype='bf16', role='activation', touched=None, label='', storage='')
    """
    return Tensor(f"{name}({x.ident})", x.dims if dims is None else tuple(dims), dtype or x.dtype)
