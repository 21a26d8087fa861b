"""Open sizes: a named size without a number goes through PyTorch's symbolic shapes and comes out as a formula.

It is the machinery behind ``torch.export``'s dynamic dimensions, without an export: the same watchers see the same
calls. Where a program branches on an open size, PyTorch notes the condition (a guard); those that are left are
assumptions of the answer, and one that fixes a size to a number is an error that names the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import product as every
from typing import Any

import sympy
import torch
from torch._decomp import global_decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._pytree import tree_leaves
from torch.utils._sympy import functions as theirs

from roofline.errors import SizeError
from roofline.frozen import NamedTuple, replace
from roofline.programs.positions import Elements, counted_up, joined, of_values, place, triangle, worked_out
from roofline.programs.regions import counted_from
from roofline.sizes import symbol
from roofline.statements import SizeCondition
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
        least = [(symbol(name) >= LEAST, f"{name} is below {LEAST}") for name in self._sizes]
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
        return views[self._view(tensor)][1] if views and self._view(tensor) in views else None

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
        rule, found = _ELEMENTS.get(name), None
        tensors = [each for each in tree_leaves(given) if isinstance(each, torch.Tensor)] if rule else []
        is_open = isinstance(result, torch.Tensor) and result.is_meta and result.layout == torch.strided
        if rule is not None and is_open and all(self._views(each) or known(each) is not None for each in tensors):
            args = {word: self._argument(value, known) for word, value in given.items()}
            args["from_end"] = (hinted_size(given.get("start", given.get("index"))) or 0) < 0
            if not any(_UNKNOWN in (value, *(value if isinstance(value, list) else ())) for value in args.values()):
                found = rule(_Made(args, tuple(map(self._plain, result.shape)), result.dtype))
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


class _Made(NamedTuple):
    """An operation on such tensors: its arguments by name, the shape and format of its result."""

    given: Mapping[str, Any]
    shape: tuple[Any, ...]
    dtype: Any

    def operands(self, *words: str) -> list[Any]:
        """Arguments by their names."""
        return [self.given.get(word) for word in words]

    @property
    def source(self) -> Elements:
        """The tensor that is moved."""
        own: Elements = self.given["self"]
        return own

    def axis(self, rank: int, word: str = "dim") -> int:
        """An axis of so many, counted from the first."""
        return int(self.given.get(word, 0)) % max(1, rank)


def _function(name: str, *words: str) -> Callable[[_Made], Elements | None]:
    return lambda made: worked_out(name, *made.operands(*(words or ("self", "other"))))


def _truth(name: str, *words: str) -> Callable[[_Made], Elements | None]:
    """A function of bits, of truth values alone."""
    return lambda made: worked_out(name, *made.operands(*words)) if made.dtype == torch.bool else None


def _plus(name: str) -> Callable[[_Made], Elements | None]:
    def found(made: _Made) -> Elements | None:
        first, second, factor = made.operands("self", "other", "alpha")
        return worked_out(name, first, worked_out("multiply", second, factor))

    return found


def _quotient_of(made: _Made) -> Elements | None:
    names = {None: "true_divide", "floor": "floor_divide"}
    name = names.get(made.given.get("rounding_mode"))
    return None if name is None else worked_out(name, *made.operands("self", "other"))


def _clamped(made: _Made) -> Elements | None:
    found: Elements | None = made.source
    for name, word in (("maximum", "min"), ("minimum", "max")):
        found = found if made.given.get(word) is None else worked_out(name, found, made.given[word])
    return found


def _converted(made: _Made) -> Elements | None:
    if made.dtype == torch.bool:
        return worked_out("not_equal", made.source, 0)
    whole = all(value.is_integer or value.is_finite is False for value in made.source.cases)
    return worked_out("positive" if whole or made.dtype.is_floating_point else "floor", made.source)


def _ranged(made: _Made) -> Elements:
    start, step = (made.given.get(word) for word in ("start", "step"))
    return Elements(made.shape, (start or 0) + (1 if step is None else step) * place(-1))


def _taken(made: _Made) -> Elements | None:
    """A slice, or one row."""
    rank, axis = len(made.source.shape), made.axis(len(made.source.shape))
    start, first = made.given.get("start", made.given.get("index")) or 0, [sympy.S.Zero] * rank
    first[axis] = start + (made.source.shape[axis] if made.given["from_end"] else 0)
    if "index" in made.given:
        at = [place(d - rank + (d < axis)) for d in range(rank)]
        return made.source.moved(made.shape, [*at[:axis], first[axis], *at[axis + 1 :]])
    steps = [made.given.get("step", 1) if d == axis else 1 for d in range(rank)]
    return made.source.sliced(first, made.shape, steps)


def _repeated(made: _Made) -> Elements | None:
    along = zip(made.shape, (*[1] * len(made.shape), *made.source.shape)[-len(made.shape) :], strict=True)
    return made.source.spread(made.shape) if all(own == 1 or own == size for size, own in along) else None


def _transposed(made: _Made) -> Elements | None:
    rank = len(made.shape)
    order = [int(d) % rank for d in made.given.get("dims", range(rank))]
    if "dims" not in made.given:
        one, other = (made.axis(rank, word) for word in ("dim0", "dim1")) if "dim0" in made.given else (0, rank - 1)
        order[one], order[other] = order[other], order[one]
    return made.source.transposed(order)


def _joined(made: _Made) -> Elements | None:
    axis, parts = made.axis(len(made.shape)) - len(made.shape), made.given["tensors"]
    return joined([part for part in parts if len(part.shape) == len(made.shape)], axis)


def _filled(word: str, number: Any = None) -> Callable[[_Made], Elements | None]:
    def found(made: _Made) -> Elements | None:
        value = made.given.get(word, number)
        value = value.number if isinstance(value, Elements) else value
        return None if value is None else Elements(made.shape, value)

    return found


def _spread(word: str) -> Callable[[_Made], Elements | None]:
    return lambda made: made.given[word].spread(made.shape)


_ELEMENTS: Mapping[str, Callable[[_Made], Elements | None]] = {
    "arange": _ranged, "full": _filled("fill_value"), "full_like": _filled("fill_value"),
    "new_full": _filled("fill_value"), "fill": _filled("value"), "scalar_tensor": _filled("s"),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero"), _filled("", 0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), _filled("", 1)),
    "add": _plus("add"), "sub": _plus("subtract"), "div": _quotient_of, "_to_copy": _converted, "clamp": _clamped,
    "rsub": lambda made: worked_out("subtract", *made.operands("other", "self")),
    "clamp_min": _clamped, "clamp_max": _clamped, "neg": _function("negative", "self"),
    "abs": _function("absolute", "self"), "floor": _function("floor", "self"), "mul": _function("multiply"),
    **{name: _function(name) for name in ("floor_divide", "remainder", "minimum", "maximum")},
    "ge": _function("greater_equal"), "gt": _function("greater"), "le": _function("less_equal"),
    "lt": _function("less"), "eq": _function("equal"), "ne": _function("not_equal"),
    **{f"logical_{word}": _function(f"logical_{word}") for word in ("and", "or", "xor")},
    **{f"bitwise_{word}": _truth(f"logical_{word}", "self", "other") for word in ("and", "or", "xor")},
    "logical_not": _function("logical_not", "self"), "bitwise_not": _truth("logical_not", "self"),
    "where": _function("where", "condition", "self", "other"),
    "masked_fill": _function("where", "mask", "value", "self"),
    "tril": lambda made: triangle(made.source, made.given.get("diagonal", 0), False),
    "triu": lambda made: triangle(made.source, made.given.get("diagonal", 0), True),
    "cumsum": lambda made: counted_up(made.source, made.axis(len(made.shape)) - len(made.shape)),
    "slice": _taken, "select": _taken, "cat": _joined, "repeat": _repeated, "copy": _spread("src"),
    **dict.fromkeys(("permute", "transpose", "t", "numpy_T"), _transposed),
    **dict.fromkeys(("expand", "clone", "alias", "detach", "lift_fresh", "contiguous"), _spread("self")),
    **dict.fromkeys(("view", "_unsafe_view", "_reshape_alias", "reshape", "unsqueeze", "squeeze"),
                    lambda made: made.source.reshaped(made.shape)),
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
