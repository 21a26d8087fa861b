"""A closed form in other languages, by sympy's own printers: numpy, Python, JavaScript, C, LaTeX.

Sympy prints ``x/49`` as ``(1/49)*x``, which rounds twice: a ceiling of it is one too large at many multiples of 49. So
a rational factor is printed as one division, and what stands under a ceiling, a floor or a remainder as one fraction.
Floats keep all their digits; an integer beyond 2^53 is a float wherever the language has no larger integers.

>>> import sympy
>>> x, W = sympy.Symbol("x", integer=True, positive=True), sympy.Symbol("W_hbm", positive=True)
>>> [text(sympy.ceiling((3 * x + 1) / 49), language) for language in ("python", "javascript")]
['math.ceil((3*x + 1)/49)', 'Math.ceil((3*x + 1)/49)']
>>> text(2**70 * x / W, "numpy"), text(sympy.Max(x / 3, 7), "numpy")
('1.1805916207174113e+21*x_/W_hbm', 'numpy.maximum(7, x_/3)')
>>> text(sympy.Float(0.97) ** x, "javascript"), text(x / W, "latex")
('Math.pow(0.97, x)', '\\\\frac{x}{W_{\\\\mathrm{hbm}}}')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import Any

from roofline.errors import InputError, SizeError, check_one_of
from roofline.frozen import Frozen, NamedTuple
from roofline.lazy import sympy
from roofline.sizes import TIE

#: The largest integer up to which a float holds every integer.
EXACT = 2**53

#: Languages of :func:`text`.
LANGUAGES = ("python", "javascript", "c", "latex", "numpy", "words")


class Language(NamedTuple):
    """A language of whole formulas: its title, the word of its option, how a file of it ends and a comment begins.

    ``largest`` is its function for the largest of numbers, where a program is made in it.
    """

    title: str
    word: str
    ending: str
    comment: str
    largest: str = ""


#: Languages that a whole formula is printed in.
PRINTED = {
    "python": Language("Python", "python", ".py", "#", "max"),
    "javascript": Language("JavaScript", "js", ".js", "//", "Math.max"),
    "c": Language("C", "c", ".c", "//", "fmax"),
    "latex": Language("LaTeX", "latex", ".tex", "%"),
}


def language_named(language: str, what: str) -> str:
    """The language that a formula, or a solution, is to be printed in, by its name or a short one.

    >>> language_named("js", "a formula")
    'javascript'
    """
    words = {word: name for name, each in PRINTED.items() for word in (name, each.word, each.ending[1:])}
    if not isinstance(language, str) or language not in words:
        raise InputError(f"{what} is not printed in {language!r}", hint=f"one of {', '.join(PRINTED)}")
    return words[language]


def text(form: Any, language: str) -> str:
    """Print a closed form, or a number, in one of :data:`LANGUAGES`."""
    check_one_of(f"no language {language!r}", str(language), LANGUAGES, "languages")
    found: str = printer(language).doprint(binary_logarithms(sympy.sympify(form)))
    return found


def latex_solution(unknown: Any, form: Any, valid: Any = True, limit: Any = None) -> str:
    """Lines that say what an unknown is in LaTeX, while what holds, and what it tends to for large sizes.

    >>> from roofline.sizes import symbol
    >>> print(latex_solution(symbol("B"), symbol("D") / 2, valid=symbol("D") > 4))
    \\begin{aligned}
    B &= \\frac{D}{2} \\\\
    & \\quad \\text{while } D > 4
    \\end{aligned}
    """
    lines = [" &= ".join(text(each, "latex") for each in (unknown, form))]
    if valid is not True:
        lines.append(rf"& \quad \text{{while }} {text(valid, 'latex')}")
    if limit is not None:
        lines.append(rf"& \to {text(limit, 'latex')} \quad \text{{for large sizes}}")
    return "\n".join([r"\begin{aligned}", " \\\\\n".join(lines), r"\end{aligned}"])


def binary_logarithms(form: Any) -> Any:
    """Write log(x)/log(2) as a binary logarithm, which is exact at powers of 2.

    >>> import sympy
    >>> text(sympy.log(sympy.Symbol("x"), 2), "python")
    'math.log2(x)'
    """
    if not form.has(sympy.log(2)):
        return form
    from sympy.codegen.rewriting import log2_opt

    return log2_opt(form)


#: Words that no size is called in a language, beside those that its printer has: a size has ``_`` behind its name.
_TAKEN = {
    "python": "max min math async await",
    "javascript": "Math NaN Infinity arguments await break case catch class const continue debugger default delete do "
    "else enum eval export extends false finally for function if implements import in instanceof interface let new "
    "null package private protected public return static super switch this throw true try typeof undefined var void "
    "while with yield",
    "c": "fmax fmin pow ceil floor log2 exp NAN",
}


@cache
def printer(language: str) -> Any:
    """Make the printer of a language."""
    made = _PRINTERS[language]()()
    if language in _TAKEN:
        made.reserved_words = {*made.reserved_words, *_TAKEN[language].split()}
    return made


def parameter(size: Any, language: str) -> str:
    """A size as an argument: in JavaScript, whose functions take an object, under its own name.

    >>> import sympy
    >>> parameter(sympy.Symbol("in"), "javascript"), parameter(sympy.Symbol("async"), "python")
    ('in: in_', 'async_')
    """
    shown = text(size, language)
    return f"{size}: {shown}" if language == "javascript" and shown != str(size) else shown


@cache
def _exact() -> Any:
    """What the printers of programming languages share; a class made late, since sympy is not loaded before."""
    from sympy.printing.precedence import PRECEDENCE

    class Exact:
        """What the programming languages share."""

        widest = True  # whether integers have no bound
        of_math = ""  # what stands before the name of a function

        def _print_Integer(self, form: Any) -> str:
            return str(form) if self.widest or abs(int(form)) <= EXACT else repr(float(form))

        _print_One = _print_Zero = _print_NegativeOne = _print_Integer

        def _print_Float(self, form: Any) -> str:
            value = float(form)
            return str(int(value)) if value.is_integer() and abs(value) <= EXACT else repr(value)

        def _print_Rational(self, form: Any) -> str:
            return f"{self._print_Integer(sympy.Integer(form.p))}/{self._print_Integer(sympy.Integer(form.q))}"

        _print_Half = _print_Rational

        def _print_Mul(self, form: Any) -> str:
            factor, rest = form.as_coeff_Mul()
            if isinstance(factor, sympy.Rational) and factor.q != 1 and not rest.is_number:
                top = self.parenthesize(factor.p * rest, PRECEDENCE["Mul"])  # type: ignore[attr-defined]
                return f"{top}/{self._print_Integer(sympy.Integer(factor.q))}"
            return str(super()._print_Mul(form))  # type: ignore[misc]

        def _quotient(self, top: Any, bottom: Any) -> str:
            if bottom == 1:
                return str(self._print(top))  # type: ignore[attr-defined]
            above, below = (self.parenthesize(part, PRECEDENCE["Pow"]) for part in (top, bottom))  # type: ignore[attr-defined]
            return f"{above}/{below}"

        def _print_ceiling(self, form: Any) -> str:
            name = "ceil" if isinstance(form, sympy.ceiling) else "floor"
            return f"{self.of_math}{name}({self._quotient(*form.args[0].as_numer_denom())})"

        _print_floor = _print_ceiling

        def _print_log2(self, form: Any) -> str:
            return f"{self.of_math}log2({self._print(form.args[0])})"  # type: ignore[attr-defined]

        def _by_question_marks(self, form: Any) -> str:
            """A choice of cases, of which none may hold, as JavaScript and C write it."""
            chosen = "".join(
                f"({self._print(case.cond)}) ? ({self._print(case.expr)}) : "  # type: ignore[attr-defined]
                for case in form.args
                if case.cond != sympy.true
            )
            last = form.args[-1]
            rest = self._print(last.expr if last.cond == sympy.true else sympy.nan)  # type: ignore[attr-defined]
            return f"({chosen}({rest}))"

    return Exact


def _python() -> Any:
    from sympy.printing.pycode import PythonCodePrinter

    class Python(_exact(), PythonCodePrinter):  # type: ignore[misc]
        of_math = "math."

    return Python


def _javascript() -> Any:
    from sympy.printing.jscode import JavascriptCodePrinter

    class JavaScript(_exact(), JavascriptCodePrinter):  # type: ignore[misc]
        of_math, widest = "Math.", False
        _print_Piecewise = _exact()._by_question_marks

        def _print_NaN(self, form: Any) -> str:
            return "NaN"

    return JavaScript


def _c() -> Any:
    from sympy.printing.c import C99CodePrinter

    class C(_exact(), C99CodePrinter):  # type: ignore[misc]
        """Every number has a point, so that no division is one of integers."""

        _print_Piecewise = _exact()._by_question_marks

        def _print_Integer(self, form: Any) -> str:
            return repr(float(form))

        _print_One = _print_Zero = _print_NegativeOne = _print_Integer

        def _print_Float(self, form: Any) -> str:
            return repr(float(form))

        def _print_Pow(self, form: Any) -> str:
            base, exponent = form.as_base_exp()
            if not exponent.is_Integer or exponent == -1:
                return str(super()._print_Pow(form))
            return f"pow({self._print(base)}, {self._print(exponent)})"

        def _print_Mod(self, form: Any) -> str:
            return f"fmod({self._print(form.args[0])}, {self._print(form.args[1])})"

    return C


def _numpy() -> Any:
    from sympy.printing.numpy import NumPyPrinter
    from sympy.printing.precedence import PRECEDENCE

    class NumPy(_exact(), NumPyPrinter):  # type: ignore[misc]
        of_math, widest = "numpy.", False

        def _print_Symbol(self, form: Any) -> str:  # no size has the name of numpy or of a buffer
            return f"{form.name}_" if form.is_integer else str(super()._print_Symbol(form))

        def _pairwise(self, name: str, parts: Sequence[Any]) -> str:
            *rest, last = map(self._print, parts)
            return str(reduce(lambda inside, each: f"numpy.{name}({each}, {inside})", reversed(rest), last))

        def _print_Max(self, form: Any) -> str:
            return self._pairwise("maximum" if isinstance(form, sympy.Max) else "minimum", form.args)

        _print_Min = _print_Max

        def _print_Function(self, form: Any) -> str:  # those of two parts that stand for Max, Min, ceiling and floor
            name = form.func.__name__
            if name in ("ceil", "floor"):
                return f"numpy.{name}({self._quotient(*form.args)})"
            two = name in ("maximum", "minimum")
            return self._pairwise(name, form.args) if two else str(super()._print_Function(form))

        def _print_Piecewise(self, form: Any) -> str:  # a tenth of the time of numpy.select
            *cases, last = form.args
            chosen = "numpy.nan" if last.cond != sympy.true else self._print(last.expr)
            for case in reversed(cases if last.cond == sympy.true else form.args):
                chosen = f"numpy.where({self._print(case.cond)}, {self._print(case.expr)}, {chosen})"
            return chosen

        def _joined(self, form: Any) -> str:  # of parts that are not of one shape
            sign = " & " if isinstance(form, sympy.And) else " | "
            return sign.join(f"({self._print(each)})" for each in form.args)

        _print_And = _print_Or = _joined

        def _print_Pow(self, form: Any, **options: Any) -> str:
            base, exponent = form.as_base_exp()
            inside = self.parenthesize(base, PRECEDENCE["Pow"])
            if exponent == -1:
                return f"1/{inside}"
            if exponent.is_Integer and 2 <= int(exponent) <= 4:
                return f"({'*'.join([inside] * int(exponent))})"
            if exponent.is_Integer and int(exponent) < 0:
                return f"1/{self.parenthesize(base**-exponent, PRECEDENCE['Pow'])}"
            return str(super()._print_Pow(form, **options))

    return NumPy


def _latex() -> Any:
    from sympy.printing.latex import LatexPrinter

    class Latex(LatexPrinter):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__({"mul_symbol": r" \, "})  # names of several letters stand apart

        def _print_Symbol(self, form: Any, style: str = "plain") -> str:
            name, _, index = form.name.partition("_")
            if not index:
                return name if len(name) == 1 else rf"\mathrm{{{name}}}"
            words = index.replace("_", r"\ ")
            return rf"{name}_{{\mathrm{{{words}}}}}" if len(name) == 1 else rf"\mathrm{{{name}\_{words}}}"

        def _print_Float(self, form: Any) -> str:
            value = float(form)
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else str(super()._print_Float(form))

    return Latex


def _words() -> Any:
    from sympy.printing.str import StrPrinter

    class FormulaText(StrPrinter):  # type: ignore[misc]
        def _print_Float(self, form: Any) -> str:
            value = float(form)
            return f"{value:.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:.6g}"

        def _named(self, form: Any) -> str:
            name = form.func.__name__.lower().replace("ceiling", "ceil")
            return f"{name}({', '.join(sorted(map(self._print, form.args)))})"

        _print_Max = _print_Min = _print_ceiling = _named

        def _joined(self, form: Any) -> str:
            return f" {form.func.__name__.lower()} ".join(map(self._print, sorted(form.args, key=str)))

        _print_And = _print_Or = _joined

        def _print_Piecewise(self, form: Any) -> str:
            *cases, last = form.args
            chosen = "".join(f"{self._print(each.expr)} if {self._print(each.cond)}, else " for each in cases)
            return f"({chosen}{self._print(last.expr)})"

    return FormulaText


_PRINTERS = {"words": _words, "python": _python, "javascript": _javascript, "c": _c, "latex": _latex, "numpy": _numpy}


class Combined(NamedTuple):
    """A column put together from those before it by their names: the ``largest`` of them, or their ``sum``."""

    how: str
    parts: tuple[str, ...]

    def text(self, names: Mapping[str, str], largest: str) -> str:
        """Its source; ``largest`` is the language's function, in C of two numbers."""
        named = [names[part] for part in self.parts]
        if largest == "fmax" and self.how == "largest":
            return reduce("fmax({}, {})".format, named)
        return " + ".join(named) if self.how == "sum" or not named[1:] else f"{largest}({', '.join(named)})"


def check_names(names: Iterable[Any], language: str = "") -> None:
    """Refuse names of sizes and rates that are no names in a program: source is made of them, and it is run.

    In a ``language`` a word of its own has ``_`` behind it, and no other size has that name.

    >>> check_names(["B", "W_hbm"])
    >>> check_names(["B=f()"])
    Traceback (most recent call last):
    roofline.errors.SizeError: size 'B=f()' is no name in a program; letters, digits and _, as in batch
    """
    every = [*map(str, names)]
    for name in every:
        if not name.isidentifier():
            raise SizeError(f"size {name!r} is no name in a program", hint="letters, digits and _, as in batch")
        if language and f"{name}_" in every and name in printer(language).reserved_words:
            raise SizeError(f"sizes {name!r} and '{name}_' have one name in {language}", hint="give one another")


class Way(NamedTuple):
    """One way to compute a form: its rates with their values, its columns, long parts of them, when it is the one.

    ``definitions`` are symbols in the columns with what they stand for, each after those in it. Where one of the
    ``conditions`` fails, each with what is said there, its columns are no numbers. It is as many ways as values of a
    symbol are ``tried``.
    """

    rates: Mapping[Any, float]
    forms: Mapping[str, Any]
    definitions: Mapping[Any, Any]
    holds: Any = None
    conditions: Sequence[tuple[Any, str]] = ()
    tried: Mapping[str, Sequence[int]] = Frozen()

    def variables(self, language: str, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """What a function works out, in order: each by its name with its source, parts first."""
        for symbol, part in self.definitions.items():
            yield printer(language).doprint(symbol), text(part, language)
        for key, form in self.forms.items():
            combined = isinstance(form, Combined)
            yield names[key], form.text(names, PRINTED[language].largest) if combined else text(form, language)


def names_of_columns(language: str, sizes: Sequence[Any], ways: Sequence[Way]) -> dict[str, str]:
    """A name of a variable for each column of some ways, none that a size, a rate or a part has."""
    others = [*sizes, *(each for way in ways for each in (*way.rates, *way.definitions))]
    check_names(others, language)
    columns = dict.fromkeys(key for way in ways for key in way.forms)
    return identifiers(columns, {printer(language).doprint(each) for each in others})


def python_source(name: str, sizes: Sequence[Any], way: Way, says: Sequence[str] = ()) -> str:
    """A function in Python that returns a dictionary; rates are arguments with their values as defaults.

    ``says`` are the lines of its docstring.

    >>> import sympy
    >>> B, W = sympy.Symbol("B", integer=True, positive=True), sympy.Symbol("W_hbm", positive=True)
    >>> forms = {"hbm": 4 * B / W, "all": Combined("sum", ("hbm", "hbm"))}
    >>> print(python_source("time", [B], Way({W: 8.19e11}, forms, {})))
    def time(B, W_hbm=819000000000.0):
        hbm = 4*B/W_hbm
        all = hbm + hbm
        return {"hbm": hbm, "all": all}
    """
    names, show = names_of_columns("python", sizes, [way]), printer("python").doprint
    arguments = [*map(show, sizes), *(f"{show(rate)}={value!r}" for rate, value in way.rates.items())]
    nothing = f"dict.fromkeys({list(way.forms)!r}, math.nan)"
    lines = [f"    {line}" for line in unless("python", way.conditions, nothing)]
    if says:
        first, *rest = says
        lines = [f'    """{first}', *(["", *(f"    {each}" for each in rest)] if rest else []), '    """', *lines]
    lines += [f"    {variable} = {source}" for variable, source in way.variables("python", names)]
    found = ", ".join(f'"{key}": {name}' for key, name in names.items())
    uses_math = any("math." in line for line in lines[len(says) + 2 * bool(says) :])
    head = [*["import math", "", ""] * uses_math, f"def {name}({', '.join(arguments)}):"]
    return "\n".join([*head, *lines, f"    return {{{found}}}"])


def javascript_source(name: str, sizes: Sequence[Any], way: Way) -> str:
    """A function in JavaScript of one object of sizes and rates; rates have their values as defaults.

    >>> import sympy
    >>> B, W = sympy.Symbol("B", integer=True, positive=True), sympy.Symbol("W_hbm", positive=True)
    >>> conditions = [(B >= 8, "B is less than 8")]
    >>> print(javascript_source("time", [B], Way({W: 8.19e11}, {"hbm": 4 * B / W}, {}, conditions=conditions)))
    function time({B, W_hbm = 819000000000}) {
      // NaN where B is less than 8
      if (!(B >= 8)) return {"hbm": NaN};
      const hbm = 4*B/W_hbm;
      return {"hbm": hbm};
    }
    """
    names, show = names_of_columns("javascript", sizes, [way]), printer("javascript").doprint
    arguments = [parameter(size, "javascript") for size in sizes]
    arguments += [f"{show(r)} = {text(value, 'javascript')}" for r, value in way.rates.items()]
    nothing = ", ".join(f'"{key}": NaN' for key in way.forms)
    lines = [f"  {line}" for line in unless("javascript", way.conditions, f"{{{nothing}}}")]
    lines += [f"  const {variable} = {source};" for variable, source in way.variables("javascript", names)]
    found = ", ".join(f'"{key}": {name}' for key, name in names.items())
    return "\n".join([f"function {name}({{{', '.join(arguments)}}}) {{", *lines, f"  return {{{found}}};", "}"])


def unless(language: str, conditions: Sequence[tuple[Any, str]], nothing: str) -> list[str]:
    """Lines of a function that return ``nothing`` where one of several conditions fails, and say where that is.

    >>> import sympy
    >>> unless("c", [(sympy.Symbol("B") >= 8, "B is less than 8")], "NAN")
    ['// NaN where B is less than 8', 'if (!(B >= 8.0)) return NAN;']
    """
    if not conditions:
        return []
    said = [f"{PRINTED[language].comment} NaN where {' '.join(reason.split())}" for _, reason in conditions]
    tests = [text(holds, language) for holds, _ in conditions]
    if language == "python":
        return [*said, f"if {' or '.join(f'not ({test})' for test in tests)}:", f"    return {nothing}"]
    return [*said, f"if ({' || '.join(f'!({test})' for test in tests)}) return {nothing};"]


def number_source(
    language: str, name: str, form: Any, known: Mapping[str, float], says: str, holds: Any = True
) -> str:  # fmt: skip
    """A function that returns one number, of the open sizes in its form; no number where it does not hold.

    ``known`` are rates and others with their values, which it takes too, in C as constants.

    >>> import sympy
    >>> D, W = sympy.symbols("D W_hbm", positive=True)
    >>> print(number_source("javascript", "B", D / W, {"W_hbm": 2.0}, "Where it flips.", D > 3))
    // Where it flips.
    function B({D, W_hbm = 2}) {
      return ...
    }
    >>> print(number_source("c", "B", D / W, {"W_hbm": 2.0}, "Where it flips."))
    #include <math.h>
    <BLANKLINE>
    // Where it flips.
    double B(double D) {
      const double W_hbm = 2.0;
      return D/W_hbm;
    }
    """
    symbols = {str(each): each for each in form.free_symbols | getattr(holds, "free_symbols", set())}
    names = sorted(symbols)
    check_names([name, *names], language)
    name, given = text(sympy.Symbol(name), language), {each: known[each] for each in names if each in known}
    sizes = [parameter(symbols[each], language) for each in names if each not in known]
    value = text(form if holds is True else sympy.Piecewise((form, holds), (sympy.nan, True)), language)
    if language == "python":
        arguments = ", ".join([*sizes, *(f"{each}={value!r}" for each, value in given.items())])
        head = ["import math", "", ""] * ("math." in value)
        return "\n".join([*head, f"def {name}({arguments}):", f'    """{says}"""', f"    return {value}"])
    if language == "javascript":
        arguments = ", ".join([*sizes, *(f"{each} = {text(value, language)}" for each, value in given.items())])
        return "\n".join([f"// {says}", f"function {name}({{{arguments}}}) {{", f"  return {value};", "}"])
    constants = [f"  const double {each} = {text(value, language)};" for each, value in given.items()]
    opens = f"double {name}({', '.join(f'double {size}' for size in sizes) or 'void'}) {{"
    return "\n".join(["#include <math.h>", "", f"// {says}", opens, *constants, f"  return {value};", "}"])


def fastest_source(
    language: str, name: str, arguments: Sequence[str], ways: Mapping[str, tuple[str, Any]],
    cases: Sequence[tuple[Any, str]] = (), tried: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
) -> str:  # fmt: skip
    """A function that asks several others inside it, and returns what has the least ``lower``.

    ``arguments`` are as they stand in its head, with their defaults; ``ways`` the sources of the others by name, and
    which of the arguments each takes. Where ``cases`` say when each holds and in words which they are, it is asked
    where it does. A way is asked with each value of an argument that is ``tried``.

    >>> way = 'def one(B):\\n    return {"lower": 2*B}'
    >>> print(fastest_source("python", "best", ["B"], {"one": (way, ["B"])}))
    def best(B):
        def one(B):
            return {"lower": 2*B}
        ways = (one(B=B),)
        least = min(way["lower"] for way in ways)
        return next((way for way in ways if way["lower"] <= 1.000000000001*least), ways[0])
    """
    sources = [source.removeprefix("import math\n\n\n") for source, _ in ways.values()]
    starts_with_math = any(source.startswith("import math") for source, _ in ways.values())
    if language == "python":
        calls = {way: f"{way}({', '.join(f'{each}={each}' for each in taken)})" for way, (_, taken) in ways.items()}
        several = "*({} for {} in {})"
        head = f"def {name}({', '.join(arguments)}):"
        last = ["ways = ({},)", 'least = min(way["lower"] for way in ways)']
        last += [f'return next((way for way in ways if way["lower"] <= {1 + TIE!r}*least), ways[0])']
        case, wrong = "if {}:\n        return {}", 'raise ValueError("none of {}")'
        indent, end, start = "    ", [], ["import math", "", ""] if starts_with_math else []
    else:
        calls = {way: f"{way}({{{', '.join(taken)}}})" for way, (_, taken) in ways.items()}
        several = "...{2}.map({1} => {0})"
        head = f"function {name}({{{', '.join(arguments)}}}) {{"
        chosen = f"way.lower < {1 - TIE!r}*best.lower ? way : best"
        last = [f"return [{{}}].reduce((best, way) => {chosen});"]
        case, wrong = "if ({}) return {};", 'throw new RangeError("none of {}");'
        indent, end, start = "  ", ["}"], []
    for way, each in (tried or {}).items():
        for size, values in each.items():
            calls[way] = several.format(calls[way], size, [*values])
    last[0] = last[0].format(", ".join(calls.values()))
    if cases:
        tests = [text(holds, language) for holds, _ in cases]
        last = [case.format(test, call) for test, call in zip(tests, calls.values(), strict=True)]
        last.append(wrong.format("; ".join(says for _, says in cases)))
    inside = [line for source in sources for line in source.splitlines()]
    return "\n".join([*start, head, *(f"{indent}{line}".rstrip() for line in [*inside, *last]), *end])


def c_source_of_ways(name: str, sizes: Sequence[Any], ways: Sequence[Way], says: Sequence[str] = ()) -> str:
    """A function in C of ``sizes`` that returns a structure, both called ``name``: the fastest of several ways.

    Where they say when they hold it is the one that does; where none does, its columns are no numbers. ``says`` stands
    ahead of it. Rates are constants inside, as C has no defaults of arguments; each of several ways is a function.

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
    names, show = names_of_columns("c", sizes, ways), printer("c").doprint
    given = [show(size) for size in sizes]

    def head(called: str, *more: str) -> str:
        return f"struct {name} {called}({', '.join(f'double {size}' for size in (*given, *more))}) {{"

    lines = ["#include <math.h>", "", f"struct {name} {{ double {', '.join(names.values())}; }};", ""]
    lines += [*(f"// {line}" for line in says)]
    if len(ways) == 1 and not ways[0].tried:
        return "\n".join([*lines, head(name), *_way_in_c(name, ways[0], names), "}"])
    calls, better = [], f"!(other.lower >= {1 - TIE!r}*best.lower)"
    for one, way in ((f"{name}_{number}", way) for number, way in enumerate(ways, 1)):
        lines += [f"static {head(one, *way.tried)}", *_way_in_c(name, way, names), "}", ""]
        values = [value for each in way.tried.values() for value in each]
        test = "" if way.holds is None else f"({text(way.holds, 'c')}) && "
        tried = [[text(n, "c")] for n in values] or [[]]
        calls += [f"{test}(other = {one}({', '.join([*given, *more])}), {better})" for more in tried]
    chosen = [f"  struct {name} best = {_nothing_in_c(name, names)}, other;"]
    chosen += [*(f"  if ({call}) best = other;" for call in calls), "  return best;"]
    return "\n".join([*lines, head(name), *chosen, "}"])


def _way_in_c(name: str, way: Way, names: Mapping[str, str]) -> Iterator[str]:
    yield from (f"  {line}" for line in unless("c", way.conditions, _nothing_in_c(name, names)))
    rates = ((printer("c").doprint(rate), text(value, "c")) for rate, value in way.rates.items())
    for variable, source in (*rates, *way.variables("c", names)):
        yield f"  const double {variable} = {source};"
    yield f"  return (struct {name}){{{', '.join(f'.{names[key]} = {names[key]}' for key in way.forms)}}};"


def _nothing_in_c(name: str, names: Mapping[str, str]) -> str:
    return f"(struct {name}){{{', '.join(f'.{column} = NAN' for column in names.values())}}}"


def identifiers(keys: Mapping[str, Any], taken: set[str]) -> dict[str, str]:
    """A name of a variable for each key: letters, digits and underscores, none that is taken."""
    found: dict[str, str] = {}
    for key in keys:
        name = "".join(letter if letter.isalnum() else "_" for letter in key)
        while name in taken or name in found.values():
            name += "_"
        found[key] = name
    return found
