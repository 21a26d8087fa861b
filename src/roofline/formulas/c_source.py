"""A closed form as C: a structure of its columns, and a function of plain numbers that fills it in.

Rates are constants inside, as C has no defaults of arguments; each of several ways to compute a form is a function.

>>> import sympy
>>> B, W = sympy.Symbol("B", integer=True, positive=True), sympy.Symbol("W_hbm", positive=True)
>>> forms = {"hbm": sympy.ceiling(B / 3) / W, "twice": Combined("sum", ("hbm",) * 2)}
>>> print(c_source_of_ways("time", [B], [Way({W: 8.19e11}, forms, {})]))
#include <math.h>
<BLANKLINE>
struct time { double hbm, twice; };
<BLANKLINE>
struct time time(double B) {
  const double W_hbm = 819000000000.0;
  const double hbm = ceil(B/3.0)/W_hbm;
  const double twice = hbm + hbm;
  return (struct time){.hbm = hbm, .twice = twice};
}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from roofline.formulas.printers import Combined, check_names, identifiers, printer, text, unless
from roofline.frozen import NamedTuple


class Way(NamedTuple):
    """One way to compute a form: its rates with their values, its columns, long parts of them, when it is the one.

    Where one of the ``conditions`` fails, each with what is said there, its columns are no numbers.
    """

    rates: Mapping[Any, float]
    forms: Mapping[str, Any]
    definitions: Mapping[Any, Any]
    holds: Any = None
    conditions: Sequence[tuple[Any, str]] = ()


def c_source_of_ways(name: str, sizes: Sequence[Any], ways: Sequence[Way], says: Sequence[str] = ()) -> str:
    """A function in C of ``sizes`` that returns a structure, both called ``name``: the fastest of several ways.

    Where they say when they hold it is the one that does; where none does, its columns are no numbers. ``says`` stands
    ahead of it.
    """
    for way in ways:
        check_names([*sizes, *way.rates, *way.definitions])
    show = printer("c")
    given = [show.doprint(size) for size in sizes]
    taken = {*given, *(show.doprint(each) for way in ways for each in (*way.rates, *way.definitions))}
    names = identifiers(dict.fromkeys(key for way in ways for key in way.forms), taken)
    head = f"({', '.join(f'double {size}' for size in given)}) {{"
    lines = ["#include <math.h>", "", f"struct {name} {{ double {', '.join(names.values())}; }};", ""]
    lines += [*(f"// {line}" for line in says)]
    if len(ways) == 1:
        return "\n".join([*lines, f"struct {name} {name}{head}", *_body(name, ways[0], names), "}"])
    called = [f"{name}_{number}" for number in range(1, len(ways) + 1)]
    for one, way in zip(called, ways, strict=True):
        lines += [f"static struct {name} {one}{head}", *_body(name, way, names), "}", ""]
    calls = [f"{one}({', '.join(given)})" for one in called]
    return "\n".join([*lines, f"struct {name} {name}{head}", *_choice(name, ways, calls, names), "}"])


def _body(name: str, way: Way, names: Mapping[str, str]) -> Iterator[str]:
    show = printer("c")
    yield from (f"  {line}" for line in unless("c", way.conditions, _nothing(name, names)))
    for symbol, value in (*way.rates.items(), *way.definitions.items()):
        yield f"  const double {show.doprint(symbol)} = {text(value, 'c')};"
    for key, form in way.forms.items():
        value = _combined(form, names) if isinstance(form, Combined) else text(form, "c")
        yield f"  const double {names[key]} = {value};"
    yield f"  return (struct {name}){{{', '.join(f'.{names[key]} = {names[key]}' for key in way.forms)}}};"


def _nothing(name: str, names: Mapping[str, str]) -> str:
    return f"(struct {name}){{{', '.join(f'.{column} = NAN' for column in names.values())}}}"


def _combined(form: Combined, names: Mapping[str, str]) -> str:
    parts = [names[part] for part in form.parts]
    return " + ".join(parts) if form.how == "sum" else reduce("fmax({}, {})".format, parts)


def _choice(name: str, ways: Sequence[Way], calls: Sequence[str], names: Mapping[str, str]) -> Iterator[str]:
    if ways[0].holds is not None:
        for way, call in zip(ways, calls, strict=True):
            yield f"  if ({text(way.holds, 'c')}) return {call};"
        yield f"  return {_nothing(name, names)};"
        return
    yield f"  struct {name} best = {calls[0]}, other;"
    for call in calls[1:]:
        yield f"  other = {call};"
        yield "  if (other.lower < best.lower) best = other;"
    yield "  return best;"
