"""Closed forms as numpy calls into buffers that are kept: a block of rows makes no array of its own.

Plain numpy makes a new array for every operation. Here each operation writes into a buffer that is free again, and the
last one into the column: two thirds of the time of the same formula written by hand.

>>> from roofline.sizes import symbol
>>> B, D = symbol("B"), symbol("D")
>>> code = BlockCode({B: ALIKE, D: ALIKE})
>>> code.put(2 * B * D + B, "outs[0]")
>>> print(*code.lines, sep="\\n")
numpy.multiply(B, 2, out=t_0)
numpy.multiply(t_0, D, out=t_0)
numpy.add(B, t_0, out=outs[0])

Over a grid, where each size varies along an axis of its own, what depends on few axes has a small buffer: one number
for each B, and one for each D.

>>> code = BlockCode({B: frozenset("B"), D: frozenset("D")})
>>> code.put(D * (B + 1) * 2, "outs[0]")
>>> print(*code.lines, *map(sorted, code.buffers), sep="\\n")
numpy.multiply(D, 2, out=t_0)
numpy.add(B, 1, out=t_1)
numpy.multiply(t_0, t_1, out=outs[0])
['D']
['B']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from roofline.formulas.printers import printer

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
        from sympy import preorder_traversal

        self.varying = dict(varying)
        self._left = Counter(part for form in forms for part in preorder_traversal(form) if part.is_Symbol)
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
        """Put the number of the largest form into a column, of equal ones that of the first."""
        if len(forms) == 2:
            first, second = map(self.value, forms)
            self._call("greater", second, first, out)
        else:
            most = self._own(self.value(forms[0]), _NUMBER.union(*map(self.axes, forms)))
            self.lines.append(f"{out}[...] = 0")
            for code, form in enumerate(forms[1:], 1):
                other = self.value(form)
                self.lines.append(f"numpy.copyto({out}, {code}, where={other.name} > {most.name})")
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
