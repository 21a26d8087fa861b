"""Closed forms as numpy calls into buffers that are kept: a block of rows makes no array of its own.

Plain numpy makes a new array for every operation. Here each operation writes into a buffer that is free again, and the
last one into the column: two thirds of the time of the same formula written by hand.

>>> from roofline.sizes import symbol
>>> B, D = symbol("B"), symbol("D")
>>> code = BlockCode({B, D})
>>> code.put(2 * B * D + B, "outs[0]")
>>> print(*code.lines, sep="\\n")
numpy.multiply(B, D, out=t_0)
numpy.multiply(t_0, 2, out=t_0)
numpy.add(B, t_0, out=outs[0])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from roofline.formulas.printers import printer


class _Value(NamedTuple):
    """Something that was worked out: its name, and the buffer that is free once it is used."""

    name: str
    buffer: str = ""


class BlockCode:
    """Statements in the making; ``varying`` are the symbols that stand for arrays, all others are numbers.

    ``forms`` are all that will be worked out: after its last use the buffer of a symbol that was kept is free.
    """

    def __init__(self, varying: set[Any], forms: Iterable[Any] = ()) -> None:
        from sympy import preorder_traversal

        self.varying = set(varying)
        self._left = Counter(part for form in forms for part in preorder_traversal(form) if part.is_Symbol)
        self._held: dict[Any, str] = {}
        self.lines: list[str] = []
        self.buffers: list[str] = []
        self._free: list[str] = []
        self._show = printer("numpy")

    def keep(self, symbol: Any, form: Any) -> None:
        """Work out a form that others use, under the name of a symbol."""
        value = self.value(form)
        if form in self._held:  # its buffer may be written to after the last use of that name
            value = self._own(value)
        self.varying.add(symbol)
        self.lines.append(f"{self._show.doprint(symbol)} = {value.name}")
        if value.buffer and self._left[symbol]:
            self._held[symbol] = value.buffer
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
        most = self._own(self.value(forms[0]))
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
        if not form.free_symbols & self.varying or form.is_Symbol:
            self._left[form] -= 1
            return _Value(self._show.doprint(form))
        kind = type(form).__name__
        if kind == "Add":
            return self._chain("add", self._ordered(form.args), out)
        if kind == "Mul":
            return self._product(form, out)
        if kind in ("maximum", "minimum"):
            return self._chain(kind, form.args, out)
        if kind == "Pow" and form.exp.is_Integer and 2 <= int(form.exp) <= 4:
            return self._power(self.value(form.base), int(form.exp), out)
        return _Value(f"({self._show.doprint(form)})")

    def _ordered(self, parts: Sequence[Any]) -> list[Any]:
        """Numbers last: they join what is an array already."""
        return sorted(parts, key=lambda part: not part.free_symbols & self.varying)

    def _product(self, form: Any, out: str) -> _Value:
        """Arrays times each other, then times what is a number, then over what stands below."""
        above, below, number = [], [], form.func()
        for part in form.args:
            if not part.free_symbols & self.varying:
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
        found = self._call("multiply", base._replace(buffer=""), base._replace(buffer=""), out if times == 2 else "")
        for count in range(3, times + 1):
            found = self._call("multiply", found, base._replace(buffer=""), out if count == times else "")
        self._release(base)
        return found

    def _chain(self, name: str, forms: Sequence[Any], out: str = "") -> _Value:
        first, *rest = forms
        found = self.value(first, "" if rest else out)
        for index, form in enumerate(rest):
            found = self._call(name, found, self.value(form), out if index == len(rest) - 1 else "")
        return found

    def _free_unused(self) -> None:
        """Give back the buffers of symbols that nothing more uses."""
        for symbol in [symbol for symbol in self._held if self._left[symbol] <= 0]:
            self._free.append(self._held.pop(symbol))

    def _call(self, name: str, one: _Value, other: _Value, out: str = "") -> _Value:
        """One operation, into a buffer of its operands where one is free."""
        if out:
            self.lines.append(f"numpy.{name}({one.name}, {other.name}, out={out})")
            self._release(one)
            self._release(other)
            return _Value(out)
        target = one.buffer or other.buffer or self._take()
        self.lines.append(f"numpy.{name}({one.name}, {other.name}, out={target})")
        if other.buffer and other.buffer != target:
            self._release(other)
        return _Value(target, target)

    def _own(self, value: _Value) -> _Value:
        """A value in a buffer that may be written to."""
        if value.buffer:
            return value
        target = self._take()
        self.lines.append(f"{target}[...] = {value.name}")
        return _Value(target, target)

    def _take(self) -> str:
        if not self._free:
            self._free.append(f"t_{len(self.buffers)}")
            self.buffers.append(self._free[-1])
        return self._free.pop()

    def _release(self, value: _Value) -> None:
        if value.buffer:
            self._free.append(value.buffer)
