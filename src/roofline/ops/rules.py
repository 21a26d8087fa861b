"""Rules: the function that prices a step of the notation, and the context it gets beside the step.

A family of operations is one file of this room; it registers its rule when the family first occurs:

>>> rule_for("softmax").__module__
'roofline.ops.reduction'

A rule turns the step's shapes into tensors and shape facts, and hands those to the price of its operation. A rule of
one's own is registered the same way:

>>> @register("nothing_at_all")
... def rule(step, context):
...     return Op("nothing", "nothing_at_all")
>>> rule_for("nothing_at_all") is rule
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

from roofline.errors import InputError, SizeError
from roofline.frozen import Frozen, NamedTuple, replace
from roofline.notation.functions import FUNCTIONS
from roofline.notation.structure import Shape, Step, tiled_elements
from roofline.sizes import Size, exact_div, is_array, is_symbol, product
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

    def rows(self, step: Step) -> Size:
        """How many rows a step works along: the labels of its first operand that are not in ``over``."""
        return self.size(label for label in step.inputs[0].labels if label not in step.over)

    def groups(self, step: Step) -> Size:
        """Groups of channels that one chip has, where its first operand is split by channels: whole ones."""
        groups = step.options.get("groups", 1)
        if isinstance(groups, str):
            return self.sizes[groups]
        return 1 if groups == 1 else exact_div(groups, self.ways.get(step.inputs[0].labels[-1], 1))

    def tensor(self, shape: Shape, role: str = "activation") -> Tensor:
        """Make the tensor of a shape."""
        dims = tuple(self.sizes[label] for label in shape.labels)
        stored = tiled_elements(dims, shape.layout) if shape.tiling else None
        return Tensor(shape.ident, dims, shape.dtype, role, label=shape.written, stored=stored)

    def operand(self, shape: Shape) -> Tensor:
        """Make a scale, a kernel, a bias or a table: a weight where it comes from outside."""
        return self.tensor(shape, "weight" if shape.source == "input" else "activation")

    def written_to(self, op: Op, shape: Shape) -> Op:
        """Say which tensor an operation writes whose sizes it has worked out itself."""
        (result,) = op.writes
        return replace(op, writes=(Tensor(shape.ident, result.dims, shape.dtype, label=shape.written),))

    def arithmetic(self, step: Step) -> str:
        """The arithmetic dtype of a step."""
        return self.compute or step.compute


#: Turns a resolved step into an operation; sizes the rule derives are those of the operation's first result.
Rule: TypeAlias = Callable[[Step, Context], Op]

#: Families that share a file with others.
_FILES = {
    "copy": "basic", "embedding": "basic", "softmax": "reduction", "scan": "reduction", "norm": "reduction",
    "sort": "reduction", "fft": "linear_algebra",
}  # fmt: skip
_RULES: dict[str, Rule] = {}


def register(family: str) -> Callable[[Rule], Rule]:
    """Register the rule of a family."""

    def keep(rule: Rule) -> Rule:
        _RULES[family] = rule
        return rule

    return keep


def family_of(step: Step) -> str:
    """The family that prices a step: its kind, or the family of the function it calls."""
    return FUNCTIONS[step.function].family if step.kind == "function" else step.kind


def has_rule(family: str) -> bool:
    """Say whether a family can be priced."""
    if family not in _RULES:
        name = f"roofline.ops.{_FILES.get(family, family)}"
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    return family in _RULES


def rule_for(family: str) -> Rule:
    """Return the rule of a family; one without a rule is an error, never a silent zero.

    >>> rule_for("quicksort")
    Traceback (most recent call last):
    roofline.errors.InputError: there is no cost rule for operations of the family 'quicksort'
    """
    if not has_rule(family):
        raise InputError(f"there is no cost rule for operations of the family {family!r}")
    return _RULES[family]


# ---- conditions that a formula cannot express: checked for ints and arrays, taken on trust for symbols


def require(condition: Any, message: str, hint: str = "") -> None:
    """Raise :class:`SizeError` unless ``condition`` holds, for every element where it is an array.

    >>> require(7 % 2 == 0, "7 channels do not fall into 2 groups")
    Traceback (most recent call last):
    roofline.errors.SizeError: 7 channels do not fall into 2 groups
    """
    held = bool(condition.all()) if is_array(condition) else is_symbol(condition) or bool(condition)
    if not held:
        raise SizeError(message, hint=hint)


def require_multiple(size: Size, of: Size, message: str, hint: str = "") -> None:
    """Raise unless ``size`` is a whole multiple of ``of``; with a symbol in either nothing is known.

    >>> require_multiple(8, 2, "never shown")
    >>> require_multiple(8, 3, "8 query heads do not share 3 key heads evenly")
    Traceback (most recent call last):
    roofline.errors.SizeError: 8 query heads do not share 3 key heads evenly
    """
    if not (is_symbol(size) or is_symbol(of)):
        require(size % of == 0, message, hint)


def require_equal(size: Size, other: Size, message: str, hint: str = "") -> None:
    """Raise unless two sizes are equal; with a symbol in either nothing is known, and nothing raised.

    >>> require_equal(64, 32, "x has 64 channels, the kernel is for 32")
    Traceback (most recent call last):
    roofline.errors.SizeError: x has 64 channels, the kernel is for 32
    """
    if not (is_symbol(size) or is_symbol(other)):
        require(size == other, message, hint)


def show_size(size: Size) -> str:
    """Write a size for a message: an array by its range.

    >>> import numpy as np
    >>> show_size(64), show_size(np.array([1.0, 8.0]))
    ('64', '1…8')
    """
    return f"{size.min():g}…{size.max():g}" if is_array(size) else str(size)
