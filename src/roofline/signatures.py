"""Signatures: the parameters that a function takes through ``**options``, by name, for ``help()`` and editors.

>>> import inspect
>>> @takes([NAMED_SIZES])
... def ask(line, *, on="h100", exact=False, **named): ...
>>> @takes(ask, but=("exact",))
... def draw(line, *, theme="light", **options): ...
>>> inspect.signature(draw)
<Signature (line, *, theme='light', on='h100', **named_sizes: 'Any')>
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

#: Sizes that a question takes by names of the caller's own.
NAMED_SIZES = Parameter("named_sizes", Parameter.VAR_KEYWORD, annotation="Any")


def takes(
    *sources: Callable[..., Any] | Collection[Parameter], but: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Show the named parameters of ``sources`` in place of a function's ``**options``, except those in ``but``.

    A source is a function, whose keyword-only parameters are taken, a dataclass, or a list of parameters; of several
    of one name the first stands. ``**named_sizes`` stands at the end where a source takes sizes by name.
    """

    def shown(function: Function) -> Function:
        own = signature(function)
        kept = {name: each for name, each in own.parameters.items() if each.kind is not Parameter.VAR_KEYWORD}
        rest = [each for source in sources for each in _parameters(source)]
        for each in rest:
            if each.kind is Parameter.KEYWORD_ONLY and each.name not in but:
                kept.setdefault(each.name, each)
        last = [NAMED_SIZES] if NAMED_SIZES in rest else []
        function.__signature__ = own.replace(parameters=[*kept.values(), *last])  # type: ignore[attr-defined]
        return function

    return shown


def with_named(shown: Signature, defaults: Mapping[str, Any]) -> Signature:
    """A signature with more named parameters, by name with their defaults; sizes by name stay the last.

    >>> with_named(signature(lambda line, **sizes: 0), {"exact": False})
    <Signature (line, *, exact=False, **sizes)>
    """
    own = [each for each in shown.parameters.values() if each.name not in defaults]
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()]
    last = [each for each in own if each.kind is Parameter.VAR_KEYWORD]
    return shown.replace(parameters=[*(each for each in own if each not in last), *more, *last])


#: Options of commands that functions say in another way.
SAID_IN_PYTHON = {
    "full_attention": "all pairs of query and key are count='full'",
    "all_logits": "outputs for every token are logits='all'",
    "sharp": "sums in the switches are algorithm={'AllReduce': 'in-switch'}",
    "than": "other chips are chips=['a100', 'b200']",
    "warm": "caches that hold all data are over='warm'",
    "cold": "data in the main memory is over='main'",
    "equal": "where two lines cost the same is roofline.solve_equal(first, second, 'B', quantity='flops')",
    "bandwidths": "ridges by bandwidth are roofline.zones(on=..., bandwidths=[...])",
    "explain": "where figures come from is answer.explain()",
    "view": "a picture is answer.plot()",
    "json": "plain data are answer.to_dict()",
}


def listed_names(names: Sequence[str]) -> list[str]:
    """Names of a list, or of one text with commas between them.

    >>> listed_names("h100, a100"), listed_names(["h100"])
    (['h100', 'a100'], ['h100'])
    """
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def optional(**annotations: str) -> list[Parameter]:
    """Parameters that are None where they are left out, by name with what they take.

    >>> optional(past="int")
    [<Parameter "past: 'int | None' = None">]
    """
    kind = Parameter.KEYWORD_ONLY
    return [Parameter(name, kind, default=None, annotation=f"{what} | None") for name, what in annotations.items()]


def renamed(source: Callable[..., Any], names: Mapping[str, str]) -> list[Parameter]:
    """Some parameters of a dataclass under the names of options: ``{option: field}``."""
    found = {each.name: each for each in _parameters(source)}
    return [found[name].replace(name=option) for option, name in names.items()]


def _parameters(source: Callable[..., Any] | Collection[Parameter]) -> Collection[Parameter]:
    """The parameters of a source; the fields of a dataclass are named ones, an empty value for one that is made."""
    if not callable(source):
        return source
    found = signature(source).parameters.values()
    if not is_dataclass(source):
        return found
    made = {each.name: each.default_factory for each in fields(source) if each.default_factory is not MISSING}
    return [
        each.replace(kind=Parameter.KEYWORD_ONLY, default=None if each.name in made else each.default) for each in found
    ]
