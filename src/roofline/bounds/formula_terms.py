"""The terms of a closed form: the time of every resource, in parts that a reader knows, over rates that are symbols.

>>> from roofline.bounds.api import bound
>>> found = bound("bf16[B, D] * int8[D, F]", on="v5e")
>>> [[part.label for part in term.parts] for term in terms_of(found)]
[['matrices'], ['activations', 'weights']]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from roofline.bounds.bound import UNITS, Bound, OpBound, ResourceUse
from roofline.bounds.traffic import moved_tensors
from roofline.errors import InputError
from roofline.formulas.printers import text
from roofline.frozen import NamedTuple
from roofline.sizes import is_symbol

#: What tensors of each role are called in a term.
_ROLES = {
    "weight": "weights", "kv": "keys and values", "state": "states", "gradient": "gradients", "raw": "bytes",
    "index": "activations", "activation": "activations", "moment": "optimizer", "master": "optimizer",
}  # fmt: skip

#: What arithmetic of each kind of operation is called.
_KINDS = {"contraction": "matrices", "attention": "attention", "elementwise": "elementwise", "norm": "norms"}


class RateSymbol(NamedTuple):
    """A rate in a formula: its symbol, its value in ``unit``, the resource it is of, where the figure is from.

    ``quantity``, ``place`` and ``dtype`` are those of the work that is divided by it.
    """

    symbol: Any
    value: float
    unit: str
    resource: str
    source: str
    quantity: str = ""
    place: str = ""
    dtype: str = ""


class TermPart(NamedTuple):
    """A part of a term: an amount over a rate, and the operations it comes from."""

    label: str
    amount: Any
    unit: str
    rate: Any
    operations: tuple[str, ...]


class FormulaTerm(NamedTuple):
    """The time of one resource as a sum of parts.

    >>> from roofline.bounds.api import bound
    >>> print(*bound("bf16[B, D] * int8[D, F]", on="v5e").formula().terms, sep="\\n")
    mxu = 2·B·D·F/P_bf16 [matrices]
    hbm = 2·B·(D + F)/W_hbm [activations] + D·F/W_hbm [weights]
    """

    resource: str
    time: Any
    parts: tuple[TermPart, ...]

    @property
    def column(self) -> str:
        """The name of its time in a program: ``time_hop_latency``."""
        return f"time_{self.resource.replace(' ', '_')}"

    def __str__(self) -> str:
        return f"{self.resource} = " + " + ".join(
            f"{_over(part.amount).replace(' · ', '·')}/{part.rate} [{part.label}]" for part in self.parts
        )


def rate_symbols(uses: Iterable[ResourceUse]) -> dict[str, RateSymbol]:
    """The rates of some uses by the names of their symbols."""
    found: dict[str, RateSymbol] = {}
    for use in uses:
        rate = use.rate
        if not is_symbol(rate.value) or rate.plain is None:
            raise InputError(f"the rate of {use.resource} is a number", hint="this answer has no closed form")
        figure = rate.figure
        source = "" if figure is None else ", ".join(filter(None, (figure.basis, figure.source, figure.date)))
        name = str(rate.value)
        unit, of = UNITS[use.quantity][1], (use.quantity, use.place, use.dtype)
        one = RateSymbol(rate.value, float(rate.plain), unit, use.resource, source, *of)
        if found.setdefault(name, one).value != one.value:
            raise InputError(f"two rates are called {name}", hint="this answer has no closed form")
    return found


def columns_of(bound: Bound) -> dict[str, Any]:
    """The columns of a bound beside its times."""
    import sympy

    whole: dict[str, Any] = {} if type(bound) is Bound else {"lower": bound.lower, "upper": bound.upper}
    whole["op_by_op"] = bound.op_by_op
    figures = ("flops", "intensity", "critical_intensity", "attainable", "utilisation", "estimate")
    whole |= {name: getattr(bound, name) for name in figures}
    whole["bytes"] = sum(bound.bytes.values())
    tables = {"bytes": bound.bytes, "wire": bound.wire, "flops": bound.flops_by}
    whole |= {f"{table}.{name}": amount for table, amounts in tables.items() for name, amount in amounts.items()}
    if bound.footprint is not None:
        parts = bound.footprint.parts
        whole |= {"memory": bound.footprint.total, **{f"memory.{name}": size for name, size in parts.items()}}
    return {name: sympy.sympify(form) for name, form in whole.items() if form is not None}


def terms_of(bound: Bound) -> Iterator[FormulaTerm]:
    """Every resource with its parts: alike amounts over one rate together."""
    parts: dict[str, dict[tuple[str, Any], list[tuple[Any, str]]]] = {name: {} for name in bound.times}
    units: dict[Any, str] = {}
    tensors = _tensors(bound)
    for index, each in enumerate(bound.ops):
        for use in each.uses:
            units[use.rate.value] = UNITS[use.quantity][0]
            for label, amount in _labelled(each, use, tensors[index]):
                found = parts[use.resource].setdefault((label, use.rate.value), [])
                found.append((amount, (each.op.where or each.op.name).rpartition(".")[2] or each.op.name))
    for resource, gathered in parts.items():
        made = tuple(
            TermPart(
                label, tidy(sum(a for a, _ in listed)), units[rate], rate, tuple(dict.fromkeys(n for _, n in listed))
            )
            for (label, rate), listed in gathered.items()
        )
        yield FormulaTerm(resource, _added(part.amount / part.rate for part in made), made)


def _added(times: Iterable[Any]) -> Any:
    import sympy

    return sympy.Add(*times)


def _labelled(part: OpBound, use: ResourceUse, tensors: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The parts of a use: bytes by the role of their tensors, arithmetic and messages by the operation's kind."""
    import sympy

    if use.quantity == "bytes":
        rest = sympy.expand(sum(size for _, size in tensors) - use.amount)
        if tensors and all(abs(each) < 0.5 for each in rest.as_coefficients_dict().values()):  # of a byte: rounding
            yield from tensors
        else:
            yield "operands", use.amount
    elif use.quantity == "flops":
        yield "experts" if "groups" in part.op.dims else _KINDS.get(part.op.kind, part.op.kind), use.amount
    else:
        kind = str(part.op.options.get("collective", "network"))
        yield (kind if use.quantity == "wire" else f"{kind}, in turn"), use.amount


def _tensors(bound: Bound) -> list[list[tuple[str, Any]]]:
    """For each operation the bytes of its tensors by role, repeats counted; nothing where they are not known."""
    found = moved_tensors(
        [part.op for part in bound.ops], bound.request.get("policy", "each-op"), bound.request.get("tile")
    )
    return [
        [(_ROLES.get(role, role), size * part.op.repeat) for role, size in each]
        for part, each in zip(bound.ops, found, strict=True)
    ]


def tidy(amount: Any) -> Any:
    """An amount as a person would write it: multiplied out, alike terms together, common factors before a bracket.

    >>> from roofline.sizes import symbol
    >>> tidy(2 * symbol("B") * (symbol("C") + 1) + 4 * symbol("B") * symbol("C"))
    2*B*(3*C + 1)
    """
    import sympy

    flat = (
        sympy.nsimplify(amount) if isinstance(amount, int) else sympy.expand(amount, power_base=False, power_exp=False)
    )
    flat = flat.xreplace({x: sympy.Integer(int(x)) for x in flat.atoms(sympy.Float) if float(x).is_integer()})
    return sympy.factor_terms(flat)


def written_amount(amount: Any) -> str:
    """An amount as a person would write it, with breaks between its factors."""
    return text(amount, "words").replace("**", "^").replace("*", " · ")


def _over(amount: Any) -> str:
    """An amount that something is divided by: a sum in brackets."""
    return f"({written_amount(amount)})" if getattr(amount, "is_Add", False) else written_amount(amount)
