"""Open sizes: a named size without a number goes through PyTorch's symbolic shapes and comes out as a formula.

It is the machinery behind ``torch.export``'s dynamic dimensions, without an export: the same watchers see the same
calls. Where a program branches on an open size, PyTorch notes the condition (a guard); those that are left are
assumptions of the answer, and one that fixes a size to a number is an error that names the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product as every
from typing import Any, TypeAlias

import sympy
import torch
from torch._decomp import global_decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._pytree import tree_leaves
from torch.utils._sympy import functions as theirs

from roofline.errors import SizeError
from roofline.frozen import replace
from roofline.programs.positions import (
    FUNCTIONS,
    Elements,
    converted,
    counted_up,
    everywhere,
    joined,
    of_values,
    place,
    triangle,
    worked_out,
)
from roofline.programs.regions import counted_from
from roofline.sizes import symbol
from roofline.statements import Gap, SizeCondition
from roofline.work import Op, Tensor, Work

#: What PyTorch takes an open size for where a program branches on it: distinct, and with many divisors.
_GUESSES = tuple(96 * prime for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29))

#: Such sizes are taken this many times smaller where a program fails on them, as on those beyond a table of positions.
SMALLER = (1, 8, 48)

#: The least an open size stands for: at 1 a dimension broadcasts, and PyTorch takes another path.
LEAST = 2


class OpenSizes:
    """The sizes of one trace that have a name and no number. ``line`` gives the user's line that runs now."""

    def __init__(self, line: Callable[[], str], smaller: int = 1) -> None:
        self._shapes = _Shapes(self._fixed, line)
        self._smaller = smaller
        self._sizes: dict[str, Any] = {}
        self._names: dict[Any, Any] = {}
        self._error: SizeError | None = None

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def size(self, name: str) -> Any:
        """PyTorch's symbolic integer of this name."""
        if name not in self._sizes:
            from torch._dynamo.source import ConstantSource

            if len(self._sizes) == len(_GUESSES):
                raise SizeError(f"more than {len(_GUESSES)} open sizes", hint="give some of them a number")
            guess, source = _GUESSES[len(self._sizes)] // self._smaller, ConstantSource(name)
            made = self._shapes.create_symbol(guess, source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
            self._names[made] = symbol(name)
            self._sizes[name] = self._shapes.create_symintnode(made, hint=guess, source=source)
        return self._sizes[name]

    def plain(self, value: Any) -> Any:
        """A number or a formula in the named sizes."""
        value = bare(value)
        if not isinstance(value, sympy.Basic):
            return value
        found = self._ours(value)
        return found if not found.is_number else int(found) if found == int(found) else float(found)

    def beyond_least(self, value: Any) -> Any:
        """A number, or a formula in what the named sizes have beyond their least."""
        return counted_from(LEAST, [self.plain(value)])[0]

    def plain_op(self, op: Op) -> Op:
        """The operation with every size a number or a formula."""
        self.check()
        return replace(
            op,
            work=Work({key: self.plain(amount) for key, amount in op.work.items()}),
            reads=tuple(self.plain_tensor(t) for t in op.reads),
            writes=tuple(self.plain_tensor(t) for t in op.writes),
            dims={name: self.plain(size) for name, size in op.dims.items()},
            options={name: self.plain(value) for name, value in op.options.items()},
        )

    def least(self) -> dict[str, int]:
        """The least each open size can be, by what the program requires of it alone."""
        guards = [item for item in (self._ours(guard.expr) for guard in self._shapes.guards) if item.free_symbols]

        def fits(size: Any, number: int) -> bool:
            try:
                return all(item.subs(size, number) == True for item in guards if item.free_symbols == {size})  # noqa: E712
            except ZeroDivisionError:  # a rest of a quotient that is zero there
                return False

        found = ((name, made.node.hint or LEAST) for name, made in self._sizes.items())
        return {name: next((n for n in range(LEAST, hint) if fits(symbol(name), n)), LEAST) for name, hint in found}

    def has_branched(self) -> bool:
        """Whether the program took a branch that depends on an open size."""
        return bool(self._shapes.guards)

    def check(self) -> None:
        """Stop if the program needed the number of an open size."""
        if self._error is not None:
            raise self._error

    def conditions(self) -> tuple[SizeCondition, ...]:
        """What has to hold for the formulas to, in words and as relations of sizes."""
        if not self._sizes:
            return ()
        found = dict.fromkeys(self._ours(guard.expr) for guard in self._shapes.guards)
        left = [written(item) for item in found if item is not sympy.true]
        where = f", where {', '.join(left)}" if left else ""
        text = f"the formulas hold for whole {', '.join(self._sizes)} from {LEAST} on{where}"
        least = [(symbol(name) >= LEAST, Gap("start", f"{name} is below {LEAST}")) for name in self._sizes]
        guards = [(item, f"{written(item)} does not hold") for item in found if item is not sympy.true]
        return (SizeCondition("program", text, [*least, *guards]),)

    def named(self, text: str) -> str:
        """PyTorch's text with our names."""
        for symbol_, ours in self._names.items():
            text = re.sub(rf"\b{symbol_}\b", str(ours), text)
        return text

    def _ours(self, expression: Any) -> Any:
        return formula(expression.xreplace(self._names))

    def _fixed(self, size: Any, to: Any, place: str) -> None:
        name, line = self._ours(size), f"{place}: " if place else ""
        guess = next((made.node.hint for word, made in self._sizes.items() if word == str(name)), None)
        needed = "here the program needs its number" if to == guess else f"here it has to be {self._ours(to)}"
        message = f"{line}{name} cannot stay open: {needed}"
        self._error = self._error or SizeError(message, hint=f"give it a number: {name}=…")

    def plain_tensor(self, tensor: Tensor) -> Tensor:
        """The tensor with every size a number or a formula."""
        if not self:
            return tensor
        return replace(tensor, dims=tuple(map(self.plain, tensor.dims)), touched=self.plain(tensor.touched))


class _Shapes(ShapeEnv):  # type: ignore[misc]
    """PyTorch's shapes; ``fixed`` hears of an open size that the program needs as a number."""

    def __init__(self, fixed: Callable[[Any, Any, str], None], line: Callable[[], str]) -> None:
        super().__init__()
        self._fixed_, self._line = fixed, line

    def _set_replacement(self, a: Any, tgt: Any, msg: str) -> None:
        self._fixed_(a, tgt, self._line())
        super()._set_replacement(a, tgt, msg)


class OpenElements:
    """Tensors that a program makes of positions alone at open sizes: formulas of their elements, by where they lie."""

    def __init__(self, plain: Callable[[Any], Any]) -> None:
        self._plain = plain
        self._held: dict[int, dict[Any, tuple[Any, Elements]]] = {}

    def of(self, tensor: Any) -> Elements | None:
        """The elements of a tensor, None where they are not known."""
        views = self._views(tensor)
        return views.get(self._view(tensor), (None, None))[1] if views else None

    def _views(self, tensor: Any) -> dict[Any, tuple[Any, Elements]]:
        """What is known of views of the storage of a tensor."""
        is_held = bool(self._held) and tensor.layout == torch.strided
        return self._held.get(tensor.untyped_storage()._cdata, {}) if is_held else {}

    def _view(self, tensor: Any) -> Any:
        """What tells views of one storage apart."""
        laid = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        return (tensor.dtype, *map(self._plain, laid))

    def follow(
        self, name: str, given: Mapping[str, Any], written: Iterable[Any], result: Any, known: Callable[[Any], Any]
    ) -> None:
        """Note what an operation makes of its arguments; ``known`` gives a tensor whose values are, or None."""
        rule, function, found = _ELEMENTS.get(name), name.removeprefix("bitwise_"), None
        is_known = rule is not None or function in FUNCTIONS
        tensors = [each for each in tree_leaves(given) if isinstance(each, torch.Tensor)] if is_known else []
        is_open = isinstance(result, torch.Tensor) and result.is_meta and result.layout == torch.strided
        if is_known and is_open and all(self._views(each) or known(each) is not None for each in tensors):
            args = {word: self._argument(value, known) for word, value in given.items()}
            if any(_UNKNOWN in (value, *(value if isinstance(value, list) else ())) for value in args.values()):
                pass
            elif rule is not None:
                is_from_end = (hinted_size(given.get("start", given.get("index"))) or 0) < 0
                into = str(result.dtype).removeprefix("torch.")
                found = rule(tuple(map(self._plain, result.shape)), into=into, is_from_end=is_from_end, **args)
            elif name == function or result.dtype == torch.bool:
                found = worked_out(function, *args.values())
        for tensor in written:  # other views of what is written into are not known any more
            if isinstance(tensor, torch.Tensor) and self._views(tensor):
                del self._held[tensor.untyped_storage()._cdata]
        if found is not None:
            views = self._held.setdefault(result.untyped_storage()._cdata, {})
            views[self._view(result)] = (result, found)

    def _argument(self, value: Any, known: Callable[[Any], Any]) -> Any:
        if isinstance(value, torch.Tensor):
            found, values = self.of(value), known(value)
            if found is None and values is not None and values.layout == torch.strided:
                found = of_values(values.float() if values.is_floating_point() else values)
            return _UNKNOWN if found is None else found
        if isinstance(value, list | tuple):
            return [self._argument(item, known) for item in value]
        return self._plain(value)


_UNKNOWN = "unknown"
_Rule: TypeAlias = "Callable[..., Elements | None]"


def _sum(name: str) -> _Rule:
    return lambda _, self, other, alpha, **__: worked_out(name, self, worked_out("mul", other, alpha))


def _divided(_: Any, self: Elements, other: Any, rounding_mode: str | None = None, **__: Any) -> Elements | None:
    rounded = {None: "positive", "floor": "floor", "trunc": "trunc"}[rounding_mode]
    return worked_out(rounded, worked_out("true_divide", self, other))


def _clamped(_: Any, self: Elements, min: Any = None, max: Any = None, **__: Any) -> Elements | None:
    above = self if min is None else worked_out("max", self, min)
    return above if max is None else worked_out("min", above, max)


def _part(shape: Any, self: Elements, is_from_end: bool, dim: int = 0, **given: Any) -> Elements | None:
    """A slice, or one row."""
    rank = len(self.shape)
    axis, first = dim % rank, given.get("start", given.get("index")) or 0
    first = first + (self.shape[axis] if is_from_end else 0)
    at = [place(d - rank + ("index" in given and d < axis)) for d in range(rank)]
    at[axis] = first if "index" in given else first + at[axis] * given.get("step", 1)
    return self.moved(shape, at)


def _repeated(shape: Any, self: Elements, **_: Any) -> Elements | None:
    along = zip(shape[::-1], self.shape[::-1], strict=False)
    return self.spread(shape) if all(own == 1 or own == size for size, own in along) else None


def _transposed(shape: Any, self: Elements, dims: Any = None, dim0: int = 0, dim1: int = -1, **_: Any) -> Any:
    order = list(range(len(shape)))
    if len(order) > 1:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return self.transposed(order if dims is None else [int(each) % len(shape) for each in dims])


def _joined(shape: Any, tensors: Sequence[Elements], dim: int = 0, **_: Any) -> Elements | None:
    rank = len(shape)
    return joined([part for part in tensors if len(part.shape) == rank], dim % rank - rank)


def _flipped(_: Any, self: Elements, dims: Sequence[int], **__: Any) -> Elements | None:
    return self.flipped([d % len(self.shape) for d in dims])


def _rolled(_: Any, self: Elements, shifts: Sequence[Any], dims: Sequence[int] = (), **__: Any) -> Elements | None:
    found: Elements | None = self if dims else None
    for shift, axis in zip(shifts, dims, strict=False):
        found = found and found.rolled(shift, axis % len(self.shape))
    return found


def _spread(word: str) -> _Rule:
    return lambda shape, **given: everywhere(given[word], shape)


def _filled(number: int) -> _Rule:
    return lambda shape, **_: Elements(shape, number)


#: What makes or moves elements; other functions of them are called as theirs in ``programs.positions``.
_ELEMENTS: Mapping[str, _Rule] = {
    "arange": lambda shape, start=None, step=1, **_: Elements(shape, (start or 0) + step * place(-1, shape)),
    "eye": lambda shape, **_: worked_out("equal", *(Elements(shape, place(axis, shape)) for axis in (-2, -1))),
    **dict.fromkeys(("full", "full_like", "new_full"), _spread("fill_value")),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero"), _filled(0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), _filled(1)),
    **dict.fromkeys(("expand", "clone", "alias", "detach", "lift_fresh", "contiguous"), _spread("self")),
    **dict.fromkeys(("view", "_unsafe_view", "_reshape_alias", "reshape", "unsqueeze", "squeeze"),
                    lambda shape, self, **_: self.reshaped(shape)),
    **dict.fromkeys(("permute", "transpose", "t", "numpy_T"), _transposed),
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max"), _clamped), **dict.fromkeys(("slice", "select"), _part),
    "fill": _spread("value"), "scalar_tensor": _spread("s"), "copy": _spread("src"), "repeat": _repeated,
    "cat": _joined, **dict.fromkeys(("max", "min"), lambda *_, **__: None),  # of all elements
    "add": _sum("add"), "sub": _sum("sub"), "rsub": lambda _, self, other, **__: worked_out("sub", other, self),
    "div": _divided, "_to_copy": lambda _, self, into, **__: converted(self, into),
    "flip": _flipped, "roll": _rolled,
    "masked_fill": lambda _, self, mask, value, **__: worked_out("where", mask, value, self),
    "tril": lambda _, self, diagonal, **__: triangle(self, diagonal, False),
    "triu": lambda _, self, diagonal, **__: triangle(self, diagonal, True),
    "cumsum": lambda shape, self, dim, **_: counted_up(self, dim % max(1, len(shape)) - len(shape)),
}  # fmt: skip


@contextmanager
def dispatched_in_python() -> Iterator[None]:
    """PyTorch's dispatcher in Python, which open sizes need; operations are taken apart before gradients are noted.

    Those that it has rules for shapes of it would hand over whole, with a gradient that is nothing.
    """
    before = {op: op._dispatch_cache.get(_GRADIENTS) for op in _composites()}
    for op in before:
        op._dispatch_cache[_GRADIENTS] = op.py_kernels.get(_COMPOSITE, _COMPOSITE)
    try:
        with enable_python_dispatcher():
            yield
    finally:
        for op, kept in before.items():
            op._dispatch_cache.pop(_GRADIENTS)
            op._dispatch_cache |= {} if kept is None else {_GRADIENTS: kept}


_GRADIENTS, _COMPOSITE = torch._C.DispatchKey.AutogradMeta, torch._C.DispatchKey.CompositeImplicitAutograd


@cache
def _composites() -> tuple[Any, ...]:
    """Operations that PyTorch has no kernel of, but rules for shapes in Python."""
    found = (op for table in global_decomposition_table.values() for op in table)
    every = dict.fromkeys([*found, torch.ops.aten.broadcast_tensors.default])
    shaped = [
        op for op in every if isinstance(op, torch._ops.OpOverload) and torch._C.DispatchKey.Meta in op.py_kernels
    ]
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return tuple(op for op in shaped if has(op.name(), "CompositeImplicitAutograd") and not has(op.name(), "CPU"))


def bare(size: Any) -> Any:
    """PyTorch's expression of an open size, for arithmetic of :mod:`roofline.sizes`, which branches on nothing."""
    return size.node.expr if isinstance(size, torch.SymInt | torch.SymFloat) else size


def hinted_size(value: Any) -> Any:
    """The number PyTorch takes an open size for; a number is itself."""
    return value.node.hint if isinstance(value, torch.SymInt) else value


def written(condition: Any) -> str:
    """A condition as one reads it.

    >>> B = symbol("B")
    >>> written(sympy.Eq(sympy.Mod(B, 8), 0)), written(sympy.Ne(B, 3)), written(B < 9)
    ('Mod(B, 8) = 0', 'B ≠ 3', 'B < 9')
    """
    if isinstance(condition, sympy.Eq | sympy.Ne):
        return f"{condition.lhs} {'=' if isinstance(condition, sympy.Eq) else '≠'} {condition.rhs}"
    return str(condition).replace("<=", "≤").replace(">=", "≥")


@cache
def formula(expression: Any) -> Any:
    """An expression with PyTorch's own integer functions as sympy's, exact quotients as such.

    >>> S = symbol("S")
    >>> formula(theirs.FloorDiv(S * (S + 1), 2)), formula(theirs.FloorDiv(S, 2))
    (S*(S + 1)/2, floor(S/2))
    """
    for kinds, ours in _FUNCTIONS.items():
        expression = expression.replace(lambda e, kinds=kinds: isinstance(e, kinds), lambda e, ours=ours: ours(*e.args))
    return expression.replace(lambda e: e.is_Float, _ratio)


def _ratio(value: Any) -> Any:
    """A float as the ratio it stands for: thirds and the like, else exactly."""
    exact = sympy.Rational(value)
    plain = exact.limit_denominator(1000)
    return plain if abs(plain - exact) <= abs(exact) * sympy.Rational(1, 2**50) else exact


def _quotient(a: Any, b: Any) -> Any:
    """a // b, without the floor where b divides a whatever the sizes are."""
    if b.is_Integer and 0 < b <= 16 and a.is_polynomial(*a.free_symbols) and len(a.free_symbols) <= 2:
        names = sorted(a.free_symbols, key=str)
        whole = all(c.is_Integer for c in sympy.Poly(a, *names).coeffs()) if names else a.is_Integer
        rests = (a.subs(dict(zip(names, at, strict=True))) % b for at in every(range(int(b)), repeat=len(names)))
        if whole and all(rest == 0 for rest in rests):
            return a / b
    return sympy.floor(a / b)


_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    (theirs.FloorDiv, theirs.CleanDiv): _quotient,
    (theirs.CeilDiv,): lambda a, b: sympy.ceiling(a / b),
    (theirs.IntTrueDiv, theirs.FloatTrueDiv): lambda a, b: a / b,
    (theirs.Mod, theirs.PythonMod): sympy.Mod,
    (theirs.ModularIndexing,): lambda a, b, n: sympy.Mod(sympy.floor(a / b), n),
    (getattr(theirs, "Max", sympy.Max),): sympy.Max,
    (getattr(theirs, "Min", sympy.Min),): sympy.Min,
    (theirs.PowByNatural, theirs.FloatPow): lambda a, b: a**b,
    (theirs.ToFloat, getattr(theirs, "Identity", theirs.ToFloat)): lambda a: a,
    (theirs.TruncToInt, theirs.FloorToInt): sympy.floor,
    (theirs.CeilToInt,): sympy.ceiling,
    (theirs.OpaqueUnaryFn_log2,): lambda a: sympy.log(a, 2),
    (theirs.OpaqueUnaryFn_sqrt,): sympy.sqrt,
}
