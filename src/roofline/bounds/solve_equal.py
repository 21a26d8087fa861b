"""The size at which two expressions cost the same: FLOPs, bytes, bytes sent, or time.

>>> scores = "attention(bf16[B, T, N, H], bf16[B, T, N, H], bf16[B, T, N, H], full)"
>>> layer = "x:bf16[B, T, D] * bf16[D, F]; bf16[B, T, F] * bf16[F, D]"
>>> found = solve_equal(scores, layer, "T", sizes={"F": "4*D", "D": 8192, "N": 64, "H": 128})
>>> found.value, found.quantity
(32768.0, 'flops')
>>> solve_equal("bf16[B, D] * bf16[D, F]", "bf16[B, D] * bf16[D, M]; bf16[B, M] * bf16[M, F]", "M").form
D*F/(D + F)

Two ways of a sharded matmul: gather the weights before it, or add up partial sums after it. The first sends as much
where D is 2·B, and takes as long for large batches where D is 2·P/W:

>>> ways = ("bf16[B, D] * AllGather_X(W:bf16[D_X, F])", "AllReduce_X(bf16[B, F] {U_X})")
>>> book = {"on": "v5p", "mesh": {"X": 4}, "algorithm": "book", "set": {"bf16": 4.59e14}}
>>> solve_equal(*ways, "D", quantity="sent", **book).form
2*B
>>> round(solve_equal(*ways, "D", quantity="time", **book, B=65536, F=32768).value)
5100
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.answers import Fact, NoTime, attributes, on_several, plain_data
from roofline.bounds.api import question
from roofline.bounds.crossing import free_symbols, positive_number, put_numbers, roots_of
from roofline.bounds.question import NOT_REPEATED, USES, Question, refuse_idle, refuse_known
from roofline.errors import InputError, SizeError, suggest
from roofline.frozen import dataclass
from roofline.notation import program
from roofline.quantity import format_number
from roofline.sections import Section, word_pairs
from roofline.signatures import either, spelled, takes
from roofline.sizes import is_array, is_symbol, symbol

#: What may be equal, with its name in words.
QUANTITIES = {"flops": "FLOPs", "bytes": "bytes", "sent": "bytes sent", "time": "time"}

#: Times are compared up to 2 to this power.
_MOST = 40


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EqualCost(NoTime):
    """Where two expressions cost the same.

    Attributes
        ``value``            the size at which they do; None where it never is, or sizes are open
        ``form``             the same in symbols, None where there is no closed form
        ``first``, ``second``   what each costs, in symbols
        ``less_below``       which of the two costs less below that size: 1 or 2, None where open sizes decide
    """

    unknown: str
    quantity: str
    texts: tuple[str, str]
    form: Any
    value: float | None
    first: Any
    second: Any
    less_below: int | None
    target: str

    @property
    def _found(self) -> str:
        """The size, its form where others are open; ``no D`` where there is none."""
        if self.form is None and self.value is None:
            return f"no {self.unknown}"
        return f"{self.unknown} = {self.form if self.value is None else format_number(self.value, 6)}"

    def facts(self) -> Iterator[Fact]:
        """The size, its closed form and both costs, for a comparison."""
        yield Fact("answer", self._found)
        if self.form is not None:
            yield Fact("closed form", str(self.form))
        if self.less_below is not None:
            yield Fact("less below", ("the first", "the second")[self.less_below - 1])
        yield from (Fact("first", str(self.first)), Fact("second", str(self.second)))

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/equal/1``)."""
        return {
            "schema": "roofline/equal/1",
            "expressions": list(self.texts),
            **attributes(self, "unknown", "quantity", "value", "less_below"),
            "form": None if self.form is None else str(self.form),
            "costs": [str(self.first), str(self.second)],
            "numbers": plain_data([self.first, self.second]),
        }

    def sections(self) -> tuple[Section, ...]:
        """The size, its closed form, and what each of the two costs."""
        word, answer = QUANTITIES[self.quantity], self._found
        if self.form is None and self.value is None:
            answer += f" gives both the same {word}"
        elif self.less_below is not None:
            order = ("first", "second") if self.less_below == 1 else ("second", "first")
            less = "takes less" if self.quantity == "time" else "has fewer"
            answer += f": below it the {order[0]} {less} {word}, above it the {order[1]}"
        lines = [("answer", answer)]
        if self.form is not None and self.value is not None:
            lines.append(("closed form", f"{self.unknown} = {self.form}"))
        lines += [(f"{name} {word}", str(cost)) for name, cost in (("first", self.first), ("second", self.second))]
        lines += [("first", self.texts[0]), ("second", self.texts[1])]
        return word_pairs(f"the same {word}", self.target, lines)

    def one_line(self) -> str:
        """The size at which both cost the same."""
        found = self.form if self.value is None else format_number(self.value, 6)
        return f"EqualCost: the same {QUANTITIES[self.quantity]} at {self.unknown} = {found}"


@on_several
@takes(question)
def solve_equal(
    first: str,
    second: str,
    for_: str,
    *,
    quantity: str = "flops",
    on: Any = "h100",
    sizes: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> EqualCost:
    """Find the size at which two expressions cost the same.

    ``quantity`` is ``flops``, ``bytes``, ``sent`` (over the busiest links) or ``time``, which needs every other size as
    a number. A size that stands in one expression alone may be the unknown, or one of both. ``arguments`` are those of
    :func:`roofline.bound`; sizes left out stay symbols. The chip decides neither FLOPs nor bytes.
    """
    if quantity not in QUANTITIES:
        raise InputError(f"{quantity!r} is not compared", hint=suggest(quantity, QUANTITIES, what="quantities"))
    given = dict(sizes or {})
    labels = [label for text in (first, second) for label in program(text).labels]
    names = {name: arguments.pop(name) for name in list(arguments) if name in labels}
    given |= names
    if for_ not in labels:
        raise SizeError(f"nothing here is called {for_!r}", hint=suggest(for_, dict.fromkeys(labels), what="sizes"))
    refuse_known(for_, given)
    _refuse_figures(quantity, arguments)
    asked = [_without(question(text, on=on, sizes=given, **arguments), for_) for text in (first, second)]
    refuse_idle(*asked, uses=(*USES, *NOT_REPEATED))
    for each in asked:
        several = next((name for name, size in each.sizes.items() if is_array(size)), None)
        if several is not None:
            raise InputError(f"{several} has several values, and an answer is for one set of sizes")
    known = {symbol(name): size for each in asked for name, size in each.sizes.items()}
    costs = [_cost(each, quantity) for each in asked]
    if quantity == "time":
        form, value = None, _same_time([put_numbers(cost, known) for cost in costs], symbol(for_))
    else:
        form, value = _same_cost(costs, known, symbol(for_))
    return EqualCost(
        unknown=for_, quantity=quantity, texts=(asked[0].text, asked[1].text), form=form, value=value,
        first=costs[0], second=costs[1], less_below=None if value is None else _less(costs, known, for_, value),
        target=asked[0].machine.name,
    )  # fmt: skip


#: Arguments that say nothing of FLOPs, bytes or bytes sent, by what is compared.
_FIGURES = ("set", "link", "unit", "over", "achievable", "overlap", "overhead")
_SAY_NOTHING_OF: dict[str, tuple[str, ...]] = {
    "flops": (*_FIGURES, "policy", "tile", "compute"),
    "bytes": (*_FIGURES, "exact", "count_padding", "compute"),
    "sent": (*(name for name in _FIGURES if name not in ("set", "link")), "policy", "tile", "exact", "count_padding"),
    "time": ("overlap", "overhead"),
}


def _refuse_figures(quantity: str, arguments: Mapping[str, Any]) -> None:
    """Refuse an argument that says nothing of what is compared."""
    given = {name: arguments.get(name) for name in _SAY_NOTHING_OF[quantity]}
    idle = next((name for name, value in given.items() if is_array(value) or value not in (None, False, {})), None)
    if idle is not None:
        hint = either("--equal time compares times", "quantity='time' compares times")
        hint = "leave it out" if quantity == "time" else f"{hint}, or leave it out"
        raise InputError(f"{spelled(idle)} says nothing of {QUANTITIES[quantity]}", hint=hint)


def _without(asked: Question, name: str) -> Question:
    """Leave the unknown open, and sizes of the other expression out."""
    labels = asked.parsed.labels
    return asked.vary(sizes={label: size for label, size in asked.sizes.items() if label in labels and label != name})


def _cost(asked: Question, quantity: str) -> Any:
    """What an expression costs in symbols."""
    found = asked.vary(sizes={}).answer(symbolic=True)
    if quantity == "time":
        return put_numbers(found.lower, {use.rate.value: use.rate.plain for use in found.uses})
    if quantity == "sent":
        return found.sent
    if quantity == "flops":
        return found.flops
    return sum(use.amount for use in found.uses if use.quantity == "bytes")


def _same_cost(costs: list[Any], known: Mapping[Any, Any], unknown: Any) -> tuple[Any, float | None]:
    """The closed form of the size at which two costs are equal, and its value; neither where none is positive."""
    roots = roots_of(costs[0], costs[1], unknown)
    if roots is None:
        hint = "solve for another size, or give the others numbers"
        raise InputError(f"there is no closed form in {unknown}", hint=hint)
    numbers = [put_numbers(root, known) for root in roots]
    for root, number in zip(roots, numbers, strict=True):
        if (value := positive_number(number)) is not None:
            return root, value
    return (roots[0], None) if roots and free_symbols(numbers[0]) else (None, None)


def _same_time(costs: list[Any], unknown: Any) -> float | None:
    """The first size from 1 on at which two times are equal, within a part in 10^12; None where none is."""
    openly = sorted(str(name) for cost in costs for name in free_symbols(cost) - {unknown})
    if openly:
        hint = "as in B=65536, F=32768"
        raise InputError(f"times are compared where every other size is a number, and {openly[0]} is open", hint=hint)

    def later(size: float) -> bool:
        first, second = (float(cost.subs(unknown, size)) if is_symbol(cost) else float(cost) for cost in costs)
        return first > second

    low = next((2.0**power for power in range(_MOST) if later(2.0**power) != later(2.0 ** (power + 1))), None)
    if low is None:
        return None
    high = 2 * low
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if later(middle) == later(low) else (low, middle)
    return high


def _less(costs: list[Any], known: Mapping[Any, Any], unknown: str, value: float) -> int | None:
    below = [put_numbers(cost, {**known, symbol(unknown): value / 2}) for cost in costs]
    if any(free_symbols(cost) for cost in below):
        ratio = put_numbers(below[0] / below[1], {})
        if free_symbols(ratio):
            return None
        return 1 if float(ratio) < 1 else 2
    return 1 if float(below[0]) < float(below[1]) else 2
