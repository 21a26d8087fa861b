"""Columns of closed forms as the source of functions that fill them in, block by block.

What no array is in is worked out once. Parts that several columns share are worked out once a block.

A block of rows makes no array of its own: closed forms are numpy calls into buffers that are kept.
Plain numpy makes a new array for every operation. Here each operation writes into a buffer that is free again, and the
last one into the column: two thirds of the time of the same formula written by hand.

>>> from roofline.sizes import symbol
>>> B, D = symbol("B"), symbol("D")
>>> code = BlockCode({B: ALIKE, D: ALIKE})
>>> code.put(2 * B * D + B, "outs[0]")
>>> print(*code.lines, sep="\\n")
numpy.multiply(B_, 2, out=t_0)
numpy.multiply(t_0, D_, out=t_0)
numpy.add(B_, t_0, out=outs[0])

Over a grid, where each size varies along an axis of its own, what depends on few axes has a small buffer: one number
for each B, and one for each D.

>>> code = BlockCode({B: frozenset("B"), D: frozenset("D")})
>>> code.put(D * (B + 1) * 2, "outs[0]")
>>> print(*code.lines, *map(sorted, code.buffers), sep="\\n")
numpy.multiply(D_, 2, out=t_0)
numpy.add(B_, 1, out=t_1)
numpy.multiply(t_0, t_1, out=outs[0])
['D']
['B']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from roofline.errors import InputError
from roofline.formulas.printers import binary_logarithms, check_names, printer
from roofline.frozen import NamedTuple
from roofline.lazy import np, sympy
from roofline.sizes import TIE, has_more_operations, rebuilt, undominated

#: Axes of arrays that all have the same rows.
ALIKE = frozenset(("rows",))

_NUMBER: frozenset[str] = frozenset()


class _Value(NamedTuple):
    """Something that was worked out: its name, the axes it varies over, and the buffer that is free once it is used."""

    name: str
    axes: frozenset[str]
    buffer: str = ""


class BlockCode:
    """Statements in the making; ``varying`` are the symbols that stand for arrays, with the axes that each varies over.

    All other symbols are numbers. ``forms`` are all that will be worked out: after its last use the buffer of a symbol
    that was kept is free. ``buffers`` are the axes of each buffer ``t_0``, ``t_1`` and so on.
    """

    def __init__(self, varying: Mapping[Any, frozenset[str]], forms: Iterable[Any] = ()) -> None:
        self.varying = dict(varying)
        self._left = Counter(part for form in forms for part in sympy.preorder_traversal(form) if part.is_Symbol)
        self._held: dict[Any, _Value] = {}
        self.lines: list[str] = []
        self.buffers: list[frozenset[str]] = []
        self._free: dict[frozenset[str], list[str]] = {}
        self._show = printer("numpy")

    def axes(self, form: Any) -> frozenset[str]:
        """The axes that a form varies over; none is a number."""
        return _NUMBER.union(*(self.varying.get(symbol, _NUMBER) for symbol in form.free_symbols))

    def keep(self, symbol: Any, form: Any) -> None:
        """Work out a form that others use, under the name of a symbol."""
        value = self.value(form)
        if form in self._held:  # its buffer may be written to after the last use of that name
            value = self._own(value, value.axes)
        self.varying[symbol] = value.axes
        self.lines.append(f"{self._show.doprint(symbol)} = {value.name}")
        if value.buffer and self._left[symbol]:
            self._held[symbol] = value
        self._free_unused()

    def put(self, form: Any, out: str) -> None:
        """Work out a form into a column."""
        value = self.value(form, out)
        if value.name != out:
            self.lines.append(f"{out}[...] = {value.name}")
            self._release(value)
        self._free_unused()

    def fold(self, name: str, forms: Sequence[Any], out: str) -> None:
        """Combine forms two by two by a function of numpy into a column."""
        first, *rest = forms
        if not rest:
            self.put(first, out)
            return
        value = self.value(first)
        for form in rest[:-1]:
            value = self._call(name, value, self.value(form))
        self._call(name, value, self.value(rest[-1]), out)
        self._free_unused()

    def which(self, forms: Sequence[Any], out: str) -> None:
        """Put the number of the largest form into a column, of those within a :data:`TIE` that of the first."""
        if len(forms) == 2:
            first, second = map(self.value, forms)
            self._call("greater", self._call("multiply", second, _Value(repr(1 - TIE), _NUMBER)), first, out)
        else:
            most = self._own(self.value(forms[0]), _NUMBER.union(*map(self.axes, forms)))
            self.lines.append(f"{out}[...] = 0")
            for code, form in enumerate(forms[1:], 1):
                other = self.value(form)
                self.lines.append(f"numpy.copyto({out}, {code}, where={other.name} * {1 - TIE!r} > {most.name})")
                self.lines.append(f"numpy.maximum({most.name}, {other.name}, out={most.name})")
                self._release(other)
            self._release(most)
        self._free_unused()

    def value(self, form: Any, out: str = "") -> _Value:
        """Work out a form; its last operation writes into ``out`` where that is given."""
        axes = self.axes(form)
        if not axes or form.is_Symbol:
            self._left[form] -= 1
            return _Value(self._show.doprint(form), axes)
        kind = type(form).__name__
        if kind == "Add":
            return self._chain("add", form.args, out)
        if kind == "Mul":
            return self._product(form, out)
        if kind in ("maximum", "minimum"):
            return self._chain(kind, form.args, out)
        if kind == "Pow" and form.exp.is_Integer and 2 <= int(form.exp) <= 4:
            return self._power(self.value(form.base), int(form.exp), out)
        return _Value(f"({self._show.doprint(form)})", axes)

    def _product(self, form: Any, out: str) -> _Value:
        """What stands above times each other, over what stands below."""
        above, below, number = [], [], form.func()
        for part in form.args:
            if not self.axes(part):
                number = number * part
            elif type(part).__name__ == "Pow" and part.exp.is_Integer and int(part.exp) < 0:
                below.append(part.base**-part.exp)
            else:
                above.append(part)
        if number != 1 or not above:
            above.append(number)
        top = self._chain("multiply", above, "" if below else out)
        return self._call("divide", top, self._chain("multiply", below), out) if below else top

    def _power(self, base: _Value, times: int, out: str) -> _Value:
        plain = base._replace(buffer="")
        found = self._call("multiply", plain, plain, out if times == 2 else "")
        for count in range(3, times + 1):
            found = self._call("multiply", found, plain, out if count == times else "")
        self._release(base)
        return found

    def _chain(self, name: str, forms: Sequence[Any], out: str = "") -> _Value:
        """Combine forms two by two: those over few axes first, numbers with the first array."""
        arrays = sorted((form for form in forms if self.axes(form)), key=lambda form: len(self.axes(form)))
        numbers = [form for form in forms if not self.axes(form)]
        first, *rest = [*arrays[:1], *numbers, *arrays[1:]]
        found = self.value(first, "" if rest else out)
        for index, form in enumerate(rest):
            found = self._call(name, found, self.value(form), out if index == len(rest) - 1 else "")
        return found

    def _free_unused(self) -> None:
        """Give back the buffers of symbols that nothing more uses."""
        for symbol in [symbol for symbol in self._held if self._left[symbol] <= 0]:
            self._release(self._held.pop(symbol))

    def _call(self, name: str, one: _Value, other: _Value, out: str = "") -> _Value:
        """One operation, into a buffer of its operands where one of the right axes is free."""
        axes = one.axes | other.axes
        ready = (each.buffer for each in (one, other) if each.buffer and each.axes == axes)
        target = out or next(ready, "") or self._take(axes)
        self.lines.append(f"numpy.{name}({one.name}, {other.name}, out={target})")
        for each in (one, other):
            if each.buffer != target:
                self._release(each)
        return _Value(target, axes, "" if out else target)

    def _own(self, value: _Value, axes: frozenset[str]) -> _Value:
        """A value in a buffer of these axes that may be written to."""
        if value.buffer and value.axes == axes:
            return value
        target = self._take(axes)
        self.lines.append(f"{target}[...] = {value.name}")
        self._release(value)
        return _Value(target, axes, target)

    def _take(self, axes: frozenset[str]) -> str:
        free = self._free.setdefault(axes, [])
        if not free:
            free.append(f"t_{len(self.buffers)}")
            self.buffers.append(axes)
        return free.pop()

    def _release(self, value: _Value) -> None:
        if value.buffer:
            self._free.setdefault(value.axes, []).append(value.buffer)


#: Operations of a form above which it is not multiplied out.
LONG = 400


class Code(NamedTuple):
    """Compiled columns: ``scalars`` works out once what no array is in, from ``takes``; the others fill in a block.

    ``rows`` does where every array has the same rows, ``grid`` where arrays broadcast. Both take buffers that are kept
    from block to block, which vary over the arrays that are named.
    """

    scalars: Callable[..., Any]
    takes: tuple[str, ...]
    rows: Callable[..., None]
    rows_buffers: Sequence[frozenset[str]]
    grid: Callable[..., None]
    grid_buffers: Sequence[frozenset[str]]
    arrays: tuple[str, ...]
    printed: Printed


class Printed(NamedTuple):
    """The source of compiled columns, with the names of what it takes."""

    takes: tuple[str, ...]
    arrays: tuple[str, ...]
    source: str
    rows_buffers: Sequence[frozenset[str]]
    grid_buffers: Sequence[frozenset[str]]

    def executed(self, name: str) -> Code:
        """The functions of the source."""
        space: dict[str, Any] = {"numpy": np}
        exec(compile(self.source, f"<{name}>", "exec"), space)
        rows, grid = (space["rows"], self.rows_buffers), (space["grid"], self.grid_buffers)
        return Code(space["scalars"], self.takes, *rows, *grid, self.arrays, self)


class ColumnForms(NamedTuple):
    """What columns are made of: sizes and rates, columns as closed forms, the times of the resources, definitions.

    ``simple`` keeps forms as :func:`simplified` made them, by whether rates are fixed.
    """

    sizes: Mapping[str, Any]
    rates: Mapping[str, float]
    forms: Mapping[str, Any]
    times: Mapping[str, Any]
    definitions: Mapping[Any, Any]
    simple: dict[bool, dict[Any, Any]]


def column_code(name: str, function: ColumnForms, wanted: tuple[str, ...], arrays: frozenset[str], fixed: bool) -> Code:
    """Print the columns as the source of two functions, and make them; ``fixed`` rates are numbers.

    >>> import numpy as np
    >>> from roofline.sizes import symbol
    >>> B = symbol("B")
    >>> forms = ColumnForms({"B": B}, {"W": 4.0}, {}, {"hbm": 8 * B}, {}, {})
    >>> code, out = column_code("demo", forms, ("time.hbm",), frozenset("B"), True), np.empty(2)
    >>> code.rows([], [out], np.array([1.0, 2.0]))
    >>> out.tolist()
    [8.0, 16.0]
    """
    check_names([*function.sizes, *function.sizes.values(), *function.rates, *function.definitions])
    letters = {**function.sizes, **{name: sympy.Symbol(name, positive=True) for name in function.rates}}
    varying = {letters[name] for name in arrays} | set(function.definitions)
    values = {letters[name]: sympy.Float(value, 17) for name, value in function.rates.items()} if fixed else {}
    known = function.simple.setdefault(fixed, dict(values))
    results = [_Result(column, index) for index, column in enumerate(wanted)]
    parts: list[Any] = []
    for result in results:
        result.take(function, parts, known)
    needed = _reached(parts, function.definitions, known)
    constants: dict[Any, Any] = {}
    split = [_constants_apart(binary_logarithms(part), varying, constants) for part in (*parts, *needed.values())]
    shared, split = sympy.cse(split, symbols=sympy.numbered_symbols("x_"), list=True)
    reduced, named = split[: len(parts)], dict(zip(needed, split[len(parts) :], strict=True))
    for index in {i for result in results for i in result.indices if sum(i in r.indices for r in results) > 1}:
        if reduced[index].args:  # several columns need it
            named[sympy.Symbol(f"p_{index}", real=True)] = reduced[index]
            reduced[index] = sympy.Symbol(f"p_{index}", real=True)
    lines = list(_in_order({**dict(shared), **named}))
    show = printer("numpy")
    order = [name for name in letters if name in arrays]
    takes = tuple(name for name in letters if name not in arrays)
    names = [show.doprint(letters[name]) for name in takes]
    fixed_names = [show.doprint(symbol) for symbol in constants.values()]
    head = [
        f"def scalars({', '.join(names)}):",
        *(f"    {show.doprint(symbol)} = {show.doprint(form)}" for form, symbol in constants.items()),
        f"    return ({''.join(f'{name}, ' for name in fixed_names)})",
    ]
    used = [*(form for _, form in lines), *(reduced[index] for result in results for index in result.indices)]
    source, buffers = list(head), []
    for way, spread in (("rows", dict.fromkeys(order, ALIKE)), ("grid", {each: frozenset((each,)) for each in order})):
        code = BlockCode({letters[each]: axes for each, axes in spread.items()}, used)
        for symbol, form in lines:
            code.keep(symbol, form)
        for result in results:
            result.into(code, reduced)
        given = ", ".join(("buffers", "outs", *fixed_names, *(show.doprint(letters[each]) for each in order)))
        cut = [f"[{', '.join(f't_{n}' for n in range(len(code.buffers)))}] = buffers"] if code.buffers else []
        source += ["", f"def {way}({given}):", *(f"    {line}" for line in (*cut, *code.lines)), "    return"]
        buffers.append([frozenset(order) if axes == ALIKE else axes for axes in code.buffers])
    return Printed(takes, tuple(order), "\n".join(source), *buffers).executed(name)


def _reached(forms: Sequence[Any], definitions: Mapping[Any, Any], known: dict[Any, Any]) -> dict[Any, Any]:
    """The definitions that forms lead to."""
    found: dict[Any, Any] = {}
    left = list(forms)
    while left:
        for symbol in sorted(left.pop().free_symbols, key=str):
            if symbol in definitions and symbol not in found:
                found[symbol] = simplified(definitions[symbol], known)
                left.append(found[symbol])
    return found


def _in_order(lines: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Each symbol with its form, after those in the form."""
    done: set[Any] = set()

    def after(symbol: Any) -> Iterator[tuple[Any, Any]]:
        if symbol in lines and symbol not in done:
            done.add(symbol)
            for other in sorted(lines[symbol].free_symbols, key=str):
                yield from after(other)
            yield symbol, lines[symbol]

    for symbol in lines:
        yield from after(symbol)


#: How columns are put together from the times of the resources.
_OF_TIMES = {"lower": "largest", "bound_by": "which", "upper": "sum"}


class _Result:
    """A column in the making: which of the forms to evaluate it needs, and how it is put together from them."""

    def __init__(self, name: str, index: int) -> None:
        self.name, self.out = name, f"outs[{index}]"
        self.indices: list[int] = []
        self.how = "value"

    def take(self, function: ColumnForms, parts: list[Any], known: dict[Any, Any]) -> None:
        """Put the forms that are needed among the parts, each once."""
        if self.name in function.forms:
            forms = [function.forms[self.name]]
        elif self.name in _OF_TIMES:
            forms, self.how = list(function.times.values()), _OF_TIMES[self.name]
        else:
            time = function.times.get(self.name.removeprefix("time."))
            if time is None:
                raise InputError(f"there is no column {self.name!r}", hint=f"{', '.join(function.forms)}, lower, upper")
            forms = [time]
        simple = [simplified(form, known) for form in forms]
        simple = undominated(simple) if self.how == "largest" else simple
        for form in simple:
            if form not in parts:
                parts.append(form)
            self.indices.append(parts.index(form))

    def into(self, code: BlockCode, forms: Sequence[Any]) -> None:
        """Work the column out in buffers that are kept."""
        mine = [forms[index] for index in self.indices]
        if self.how == "which":
            code.which(mine, self.out)
        else:
            code.fold("maximum" if self.how == "largest" else "add", mine, self.out)


def simplified(form: Any, known: dict[Any, Any]) -> Any:
    """Put numbers in for rates, multiply out what is not long, and drop from each maximum what is never the largest.

    A maximum or minimum of several parts becomes a function of two that sympy does not try to order. ``known`` holds
    the numbers at first, and then each part as it was made: most parts stand in several forms.

    >>> from roofline.sizes import symbol
    >>> import sympy
    >>> B, C = symbol("B"), symbol("C")
    >>> simplified(2 * (B + 3 * C) + sympy.Max(B * C, 4 * B * C + B, 7), {})
    2*B + 6*C + maximum(4*B*C + B, 7)
    """

    def done(part: Any) -> Any:
        if part not in known:
            known[part] = made(part, [done(each) for each in part.args]) if part.args else part
        return known[part]

    def made(part: Any, args: list[Any]) -> Any:
        if not isinstance(part, sympy.Max | sympy.Min):
            return part if all(a is b for a, b in zip(args, part.args, strict=True)) else rebuilt(part, args)
        is_most = isinstance(part, sympy.Max)
        kept = undominated([_flat(each) for each in sorted(args, key=str)], largest=is_most)
        never_below_0 = (any if is_most else all)(each.is_nonnegative for each in kept)
        facts = {"nonnegative": True} if never_below_0 else {"real": True}
        return reduce(sympy.Function("maximum" if is_most else "minimum", **facts), kept)

    whole = ("whole", form)
    if whole not in known:
        known[whole] = _flat(done(sympy.sympify(form)))
    return known[whole]


def _flat(form: Any) -> Any:
    """A form multiplied out, unless that makes it long."""
    if form.is_Atom or has_more_operations([form], LONG):
        return form
    return sympy.expand(form, power_base=False, power_exp=False, log=False)


def _constants_apart(form: Any, varying: set[Any], constants: dict[Any, Any]) -> Any:
    """Gather in a sum what no array is in: each factor becomes a symbol of its own, worked out once."""

    def named(part: Any) -> Any:
        if part.is_Number:
            return part
        return constants.setdefault(part, sympy.Symbol(f"k_{len(constants)}", real=True))

    def inside(part: Any) -> Any:
        is_number = not isinstance(part, sympy.Rel | sympy.logic.boolalg.BooleanFunction | sympy.Tuple)
        if is_number and not part.free_symbols & varying:
            return named(part) if part.free_symbols else part
        if part.is_Atom:
            return part
        if isinstance(part, sympy.Add):
            gathered: dict[Any, list[Any]] = {}
            for term in part.args:
                fixed, free = term.as_independent(*varying, as_Add=False)
                gathered.setdefault(free, []).append(fixed)
            terms = [named(sympy.Add(*fixed)) * (inside(free) if free != 1 else 1) for free, fixed in gathered.items()]
            return sympy.Add(*terms)
        if isinstance(part, sympy.Mul):
            fixed, free = part.as_independent(*varying, as_Add=False)
            if fixed != 1:
                return named(fixed) * inside(free)
        if isinstance(part, sympy.ceiling | sympy.floor):
            return _one_division(part.xreplace({symbol: named(symbol) for symbol in part.free_symbols - varying}))
        return rebuilt(part, [inside(each) for each in part.args])

    return inside(form)


def _one_division(form: Any) -> Any:
    """Write each ceiling and floor as a function of what it divides and by what: others share neither quotient.

    >>> from roofline.sizes import symbol
    >>> import sympy
    >>> _one_division(sympy.floor((symbol("X") - 2) / 3))
    floor(X - 2, 3)
    """
    if form.is_Atom:
        return form
    if isinstance(form, sympy.ceiling | sympy.floor):
        name = "ceil" if isinstance(form, sympy.ceiling) else "floor"
        return sympy.Function(name, integer=True)(*map(_one_division, form.args[0].as_numer_denom()))
    return rebuilt(form, [_one_division(each) for each in form.args])
