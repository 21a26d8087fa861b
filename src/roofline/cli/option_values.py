"""How the words of a command line become arguments of the library: each option's value, given once, checked.

>>> command = click.Command("x", params=[click.Option(["--dtype"]), click.Option(["--json"], is_flag=True)])
>>> check_once(command, ["--json", "--dtype", "bf16", "--json"])
>>> check_once(command, ["--dtype", "bf16", "--dtype=fp32"])
Traceback (most recent call last):
roofline.errors.InputError: --dtype is given 2 times; give it once
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from roofline.answers import LISTED, WAYS, each_beside, format_choices, one_measured, prices_in, values_listed
from roofline.bounds.conventions import NAMES, settings
from roofline.cli.command import WORDS, not_default
from roofline.counts import SIZE, count, is_group, parse_size, plain
from roofline.errors import InputError, QuantityError, RooflineError, SizeError, quoted
from roofline.files import is_program
from roofline.hardware.catalog import behind_colon, user_file
from roofline.hardware.targets import is_machine, open_shape
from roofline.lazy import np
from roofline.notation.calls import longest_match
from roofline.ops.formula import FUNCTIONS
from roofline.quantity import format_quantity, format_times, in_a_row, kind_of, parse, whole_number
from roofline.signatures import spelled
from roofline.sizes import LARGEST, grouped, is_array, is_number

Callback = Callable[[click.Context, click.Parameter, str | None], float | None]

_SIZE = re.compile(SIZE, re.DOTALL)
#: A list as Python writes it, ``B=[1, 2, 4]``: its brackets go.
_LIST = r"(\s*[^\W\d]\w*\s*=\s*)[\[(]([\d\s,._e]*,[\d\s,._e]*\d)[\])]\s*"
#: What reads as one number with separators of thousands, and as a list.
_SEPARATED = r"\d{1,3}(?:,[1-9]\d{2})+"
#: What to write where an option that takes one value is given several times.
_ONCE = {
    "flops": "a list is one word: --flops 1e9,2e9",
    "bytes_": "a list is one word: --bytes 1e9,2e9",
    "intensity": "a list is one word: --intensity 7,25",
    "vary": "one size goes along the axis; several values of another, as in D=1024,4096, are curves",
}


def targets(words: Sequence[str]) -> list[str | None]:
    """The machines that were named, once for each or with commas between them; none is what the question says.

    >>> targets(["h100:8,8 x h200", "v5e:4x4"]), targets([])
    (['h100:8', 'h200:8', 'v5e:4x4'], [None])
    """
    written = [each.strip() for word in words for each in ([word] if os.path.exists(word) else word.split(","))]
    found = [behind_colon(each) for each in written]
    if "" in found:
        wrong = "--on names no machine beside a comma" if any(found) else "--on names no machine"
        raise InputError(wrong, hint="as in --on h100:8,h200:8")
    return list(dict.fromkeys(found)) or [None]


def on_each(
    options: dict[str, Any], ask: Callable[[dict[str, Any]], Any], *lists: str, measured: str | None = None
) -> Any:
    """The answer to a question, or where several machines or formats were named one for each, side by side.

    ``ask`` answers with the options of one machine, which it may use up. ``lists`` are other options that may be lists.
    A time that was ``measured`` is of one answer.
    """
    machines, chosen = targets(options["on"]), format_choices(options, (*LISTED, *lists))
    one_measured(measured, len(machines) * len(chosen))
    return each_beside(machines, chosen, options, ask, crossed=True)


def crossed_sizes(sizes: dict[str, Any]) -> dict[str, Any]:
    """Lay sizes of several values across each other: every batch with every context."""
    several = [name for name, value in sizes.items() if is_array(value)]
    if len(several) < 2:
        return sizes
    grid = np.meshgrid(*(sizes[name] for name in several), indexing="ij")
    return {**sizes, **{name: values.ravel() for name, values in zip(several, grid, strict=True)}}


def is_list(text: str | None) -> bool:
    """Whether words stand in a list: there are commas, and none that separates thousands, as between digits.

    >>> is_list("28GB,14GB"), is_list("64Ki,128Ki"), is_list("1,000MB"), is_list("each-op"), is_list(None)
    (True, True, False, False, False)
    """
    first, *parts = (text or "").split(",")
    return bool(first and parts) and not re.match(r"\s*\d{1,3},\s*\d{3}(?!\d)", text or "")


def words_of_lists(_: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    """The values of an option that stands several times, or has several in one word: ``h200,b200``.

    >>> words_of_lists(None, click.Option(["--set"]), ["hbm=4e12,bf16=2x", "l2=1,5"])
    ('hbm=4e12', 'bf16=2x', 'l2=1,5')
    """
    found = []
    for word in values:
        parts = [part.strip() for part in word.split(",")]
        is_split = is_list(word) and not os.path.exists(word) and len({"=" in part for part in parts}) == 1
        found += parts if is_split else [word]
    return tuple(found)


#: The least difference of a ratio from 1 that two digits behind the point show.
LEAST_SHOWN = 0.005


def against_catalog(found: Any, options: dict[str, Any], ask: Callable[[dict[str, Any]], Any]) -> list[str]:
    """What figures of one's own change: each time at best with the catalog's, and with those, of several each alone."""
    (on, *others) = targets(options["on"]) if isinstance(options["on"], tuple | list) else [options["on"]]
    if not options.get("set_") or others or not hasattr(found, "target"):
        return []

    def times(*given: str) -> dict[str, Any]:
        try:
            return {fact.name: fact.value for fact in ask({**options, "on": on, "set_": given}).facts()}
        except RooflineError:  # without the others there is no answer
            return {}

    before, several = times(), len(options["set_"]) > 1
    alone = {one: times(one) for one in options["set_"]} if several and before else {}
    lines = []
    for fact in found.facts():
        was = before.get(fact.name)
        if fact.kind == "floor" and is_number(fact.value) and is_number(was):

            def gain(now: Any, was: Any = was, is_rate: bool = fact.better == "more") -> float:
                return float(now / was if is_rate else was / now)

            yours, listed = format_quantity(fact.value, fact.unit), format_quantity(was, fact.unit)
            faster = format_times(gain(fact.value))
            lines.append(f"{fact.name}: {listed} with the catalog's figures, {yours} with yours, {faster}")
            gains = {one: gain(own[fact.name]) for one, own in alone.items() if is_number(own.get(fact.name))}
            if any(abs(each - 1) >= LEAST_SHOWN for each in gains.values()):
                lines.append(f"each alone: {', '.join(f'{one} {format_times(each)}' for one, each in gains.items())}")
    return lines


def blocks_asked(options: dict[str, Any], output: str | None) -> dict[str, Any]:
    """The options of a grid in blocks, which ``options`` lose; none where a table in memory is asked for."""
    names = ("keep", "block_rows", "workers", "scheduler", "scheduler_file")
    given = {name: value for name in names if (value := options.pop(name)) is not None}
    folder = output is not None and (output.endswith(("/", os.sep)) or os.path.isdir(output))
    if not given and not folder:
        return {}
    if output is not None and os.path.splitext(output)[1] and not folder:
        raise InputError(f"blocks are not written to one file: {output}", hint="name a folder: -o grid/")
    return {**given, "out": output, "announce": announced}


def announced(text: str) -> None:
    """Tell someone who waits, beside the answer."""
    click.echo(text, err=True)


def expectation_wanted(options: dict[str, Any]) -> dict[str, Any]:
    """What ``--estimate`` asks for: library, files of constants, eager; ``options`` lose it. Nothing without it.

    What was measured is of one machine, and goes with it.
    """
    took = options.pop("measured", None)
    if took is not None and len(targets(options["on"])) > 1:
        raise InputError("--measured is a time on one machine", hint="name the one that it was measured on")
    beside = {} if took is None else {"measured": took}
    wanted, library, files = options.pop("estimate"), options.pop("library"), options.pop("constants")
    eager = options.pop("eager")
    if not wanted and any(map(not_default, ("library", "constants", "eager"))):
        raise InputError("--library, --constants and --eager go with --estimate", hint="add --estimate")
    return beside | ({"estimate": library, "constants": files, "eager": eager} if wanted else {})


def split_words(words: Sequence[str], lists: bool = False) -> tuple[list[str], dict[str, Any]]:
    """Tell expressions from sizes among the words of a command line.

    ``lists`` says that a comma separates sizes. Elsewhere ``D=8,192`` may be one number with a separator: an error.

    >>> split_words(["bf16[B, D] * bf16[D, F]", "B=1:4", "D=1024,4096", "F=4*D", "x = relu(bf16[N])"])
    (['bf16[B, D] * bf16[D, F]', 'x = relu(bf16[N])'], {'B': [1, 2, 3, 4], 'D': [1024, 4096], 'F': '4*D'})
    >>> split_words(["F=D=4096", "B＝64"])                 # one size that is another's, and full-width signs
    ([], {'D': 4096, 'F': 'D', 'B': 64})
    """
    expressions: list[str] = []
    sizes: dict[str, Any] = {}
    for word in words:
        word = plain(word)
        match = _SIZE.fullmatch(re.sub(_LIST, r"\1\2", word) if "," in word else word) if "=" in word else None
        if match is None or _is_call(match.group(2)):
            expressions.append(word)
            continue
        name, text = match.groups()
        separated = not lists and "," in text and re.fullmatch(_SEPARATED, text.strip())
        if separated and re.fullmatch(_LIST, word) is None:
            *others, last = text.strip().split(",")
            hint = f"one is written without separators, {name}={''.join((*others, last))}; roofline sweep takes several"
            raise SizeError(f"size {name} is several sizes, {', '.join(others)} and {last}", hint=hint)
        _add_size(sizes, name, text)
    return expressions, sizes


def _add_size(sizes: dict[str, Any], name: str, text: str) -> None:
    """Put one size among the others; of ``F=D=4096`` both."""
    tied = _SIZE.fullmatch(text)
    if tied is not None:
        _add_size(sizes, *tied.groups())
    if name in sizes:
        raise SizeError(f"size {name} is given twice", hint="give it once")
    sizes[name] = tied[1] if tied is not None else parse_size(name, text.strip())


def _is_call(text: str) -> bool:
    """Say whether ``h = gelu(x)`` is a statement: a function of the notation that formulas of sizes do not have."""
    match = re.match(r"\s*([^\W\d]\w*)\s*\(", text) if "(" in text else None
    if match is None:
        return False

    return match.group(1) not in FUNCTIONS and longest_match(match.group(1)) is not None


def parse_set(items: Sequence[str]) -> dict[str, str]:
    """Read ``--set`` words into overrides.

    >>> parse_set(["hbm=8.2e11", "mxu.bf16=1e15"])
    {'hbm': '8.2e11', 'mxu.bf16': '1e15'}
    """
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f"--set {item!r} is not FIGURE=VALUE", hint="for instance --set hbm=8.2e11")
        if name.strip() in found:
            raise InputError(f"--set {name.strip()} is given twice", hint="give it once")
        found[name.strip()] = value.strip()
    return found


def parse_mesh(words: Sequence[str], option: str = "mesh", form: str = "SIZE") -> dict[str, int | str]:
    """Read ``--mesh X=4,Y=n`` into the sizes of mesh axes: numbers, or formulas of sizes; ``option`` is its word.

    >>> parse_mesh(["X=4,Y=n/2", "Z=2"])
    {'X': 4, 'Y': 'n/2', 'Z': 2}
    """
    found: dict[str, int | str] = {}
    for item in (item for word in words for item in word.split(",")):
        name, equals, text = (part.strip() for part in item.partition("="))
        if not equals or not name or not text:
            raise InputError(f"--{option} {item!r} is not AXIS={form}", hint=f"for instance --{option} X=4,Y=8")
        if name in found:
            raise InputError(f"mesh axis {name} is given twice", hint="give it once")
        number = count(text)
        if isinstance(number, float):
            raise SizeError(f"mesh axis {name} is {text}", hint="the size of an axis is a whole number of at least 1")
        found[name] = text if number is None else number
    return found


def parse_algorithms(words: Sequence[str], sharp: bool) -> str | dict[str, str] | None:
    """Read ``--algorithm book`` or ``--algorithm AllReduce=tree``, and ``--sharp``.

    >>> parse_algorithms(["book"], False), parse_algorithms(["AllGather=direct"], True)
    ('book', {'AllReduce': 'in-switch', 'AllGather': 'direct'})
    """
    single = [word for word in words if "=" not in word]
    if len(single) > 1 or (single and (sharp or len(words) > 1)):
        hint = "one for all collectives, or one for each: --algorithm AllReduce=tree --algorithm AllGather=direct"
        raise InputError("several algorithms are given", hint=hint)
    if single:
        return single[0]
    found = {"AllReduce": "in-switch"} if sharp else {}
    for word in words:
        kind, _, name = (part.strip() for part in word.partition("="))
        if kind in found:
            raise InputError(f"{kind} has two algorithms", hint="give it one")
        found[kind] = name
    return found or None


def _axes(text: str | None) -> tuple[str, ...]:
    return tuple(axis.strip() for axis in (text or "").split(",") if axis.strip())


def convention_arguments(options: dict[str, Any], names: Sequence[str] = NAMES) -> dict[str, Any]:
    """Turn options of conventions, and ``link``, into arguments of the library, those given; ``options`` loses them.

    >>> convention_arguments({"tile": "128,128,64", "use": "X, Y", "count_padding": True, "wrap": None, "sharp": True})
    {'tile': [128, 128, 64], 'count_padding': False, 'algorithm': {'AllReduce': 'in-switch'}, 'use': ('X', 'Y')}
    """
    sharp = bool(options.pop("sharp", False))
    forms: dict[str, Callable[[Any], Any]] = {
        "tile": parse_tile,
        "mesh": parse_mesh,
        "axes": _axes,
        "algorithms": lambda words: parse_algorithms(words, sharp),
    }
    found: dict[str, Any] = {} if options.get("link") is None else {"link": options["link"]}
    options.pop("link", None)
    if sharp:
        options.setdefault("algorithm", ())
    for name in names:
        if name not in options:
            continue
        setting, value = settings()[name], options.pop(name)
        value = forms[setting.form](value) if setting.form in forms else value
        if setting.form == "flag":
            value = not setting.default if value else None
        if value not in (None, {}, ()) and not (setting.choices and value == setting.default):
            found[name] = value
    return found


def parse_tile(text: str | None) -> list[int] | None:
    """Read ``--tile 128,128,64``."""
    if text is None:
        return None
    sizes = [whole_number(part) for part in re.split(r"[,x]", text)]
    if len(sizes) != 3 or None in sizes:
        raise InputError(f"--tile {text!r} is not three sizes", hint="bm,bn,bk, as in --tile 128,128,64")
    return [size for size in sizes if size is not None]


def parse_amount(text: str | None) -> str | list[str] | None:
    """Read an amount of raw work: one (or a formula, whose functions have commas), or a list.

    >>> parse_amount("7, 25"), parse_amount("max(B, 8)*1e9")
    (['7', '25'], 'max(B, 8)*1e9')
    """
    if text is None:
        return None
    parts = [part.strip() for part in plain(text).split(",")]
    if len(parts) == 1 or "(" in plain(text):
        return text
    if any(map(is_group, parts)):
        raise InputError(f"{text!r} is a list: {', '.join(parts)}", hint="numbers without separators, as in 1e6,2500")
    return parts


def machine_files(files: Sequence[str], targets: Sequence[str | None] = (None,)) -> tuple[str, ...]:
    """Put the user's own folder of machine files before those named on the command line.

    The file of this machine is long, so it goes with them only where a target may mean it: ``this``, or none given
    here (an expression may name one itself).
    """
    number = next((text for text in files if text.strip().isdecimal()), None)
    if number is not None:
        hint = f"a number of chips stands behind the target: --on h100:{number.strip()}"
        raise InputError(f"--chips {number!r} is not a machine file", hint=hint)
    folder = user_file("chips")
    wanted = any(target is None or target.strip().lower().startswith("this") for target in targets)
    measured = [user_file("this.toml"), user_file("this-device.toml")] if wanted else []
    own = [folder] if os.path.isdir(folder) else []
    return (*own, *(path for path in measured if os.path.isfile(path)), *files)


def machine_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Turn the options that say which machine into arguments of the library; ``options`` loses them."""
    on = options.pop("on")
    return {"on": on, "set": parse_set(options.pop("set_")), "files": machine_files(options.pop("files"), (on,))}


def target_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Turn the shared target options into arguments of the library; ``options`` loses them."""
    return machine_arguments(options) | {name: options.pop(name) for name in ("unit", "over", "achievable")}


def question_arguments(options: dict[str, Any], sizes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Turn target, work and estimate options into arguments of :func:`roofline.question`, which has these sizes."""
    arguments = target_arguments(options)
    arguments |= {
        "flops": parse_amount(options.pop("flops")),
        "bytes": parse_amount(options.pop("bytes_")),
        "intensity": parse_amount(options.pop("intensity")),
        "dtype": options.pop("dtype"),
        **convention_arguments(options),
    }
    amounts = {name: arguments[name] for name in ("flops", "bytes", "intensity")}
    if sizes and any(amounts.values()):
        from roofline.bounds.api import stand_somewhere
        from roofline.bounds.question import names_in

        if names_in(amounts):
            stand_somewhere(sizes, amounts, sizes)
    return arguments


def one_expression(expressions: Sequence[str]) -> str | None:
    """Check that at most one expression was given."""
    if len(expressions) > 1:
        shown = ", ".join([*map(repr, expressions[:6]), *["…"] * (len(expressions) > 6)])  # a shell puts files for *
        hint = unit_apart(words_given()) or _meant_by(expressions) or "quote an expression as one word"
        if any(_SIZE.fullmatch(e) for e in expressions):
            hint += f"; a formula of sizes is made with {', '.join(FUNCTIONS)}"
        raise InputError(f"one expression at a time, not {len(expressions)}: {shown}", hint=hint)
    if expressions and is_program(expressions[0]):
        wrong = f"{expressions[0]} is a program"
        raise InputError(wrong, hint=f"roofline trace {expressions[0]} prices its operations")
    return expressions[0] if expressions else None


def words_given() -> list[str]:
    """The words of the command line that is run: none outside of one."""
    context = click.get_current_context(silent=True)
    return [] if context is None else context.meta.get(WORDS, [])


def unit_apart(words: Sequence[str]) -> str:
    """How a number and its unit are written, where they are two words behind an option; empty where none are.

    >>> unit_apart(["allreduce", "--bytes", "64", "MB"]), unit_apart(["--context", "8", "--json"])
    ('a number and its unit are one word: 64MB', '')
    """
    for option, number, unit in zip(words, words[1:], words[2:], strict=False):
        if option.startswith("--") and re.fullmatch(r"[\d.]+", number) and not unit[:1].isdigit():
            whole = number + unit
            if unit in ("/s", "/min", "/h") or kind_of(whole) is not None or count(whole) is not None:
                return f"a number and its unit are one word: {whole}"
    return ""


def _meant_by(words: Sequence[str]) -> str:
    """What words that are no expression were meant for, where that can be told.

    >>> _meant_by(["bf16[B, D] * bf16[D, F]", "on", "h100"]), _meant_by(["x = relu(y)", "B", "=", "64"])
    ('an option begins with two dashes: --on h100', 'a size is one word without spaces: B=64')
    >>> _meant_by(["allreduce", "h100:8"])
    'the machine is an option: --on h100:8'
    """
    for word, after in zip(words, [*words[1:], ""], strict=True):
        name = word.lstrip("-–—")
        if name in ("on", "for", "over", "set") and after:
            return f"an option begins with two dashes: --{name} {after}"
        if is_machine(word):
            return f"the machine is an option: --on {word}"
        if re.fullmatch(r"[^\W\d]\w*[:=]?", word) and (after.lstrip(":=").isdigit() or after in ("=", ":")):
            return "a size is one word without spaces: B=64"
        if re.fullmatch(r"[^\W\d]\w*:\d+", word):
            return f"a size is written {word.replace(':', '=')}"
    return ""


def figure_in(unit: str) -> Callback:
    """Make what reads an option as a number in ``unit``; which numbers it may be is the library's to say."""

    def read(_: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        try:
            plain = None if unit else count(value)  # 2.664M hours
            return float(value if plain is None else plain)
        except (ValueError, OverflowError):
            pass
        try:
            return parse(value, unit, zero=True)
        except QuantityError as error:
            raise error.worded(f"{parameter.opts[0]}: ") from None

    return read


def prices(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """A price of every machine, or one for each: in their order, or by name (``h200=3.5,b200=6``); or the catalog's."""
    found = prices_in(value)

    def one(price: str | None) -> Any:
        return price if price == "table" else figure_in("USD/h")(context, parameter, price)

    if isinstance(found, dict):
        return {name: one(price) for name, price in found.items()}
    return [one(price) for price in found] if isinstance(found, list) else one(found)


FRACTION = figure_in("")
POWER = figure_in("W")


class ChipsOfEach(click.ParamType):  # type: ignore[type-arg]
    """A number of chips, or one for each of several machines, in their order."""

    name = "integer"
    one: Any = click.INT

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read ``8`` as a number, ``8,4`` as a list of them."""
        if not isinstance(value, str) or not is_list(value):
            return self.one.convert(value, param, ctx)
        return [self.one.convert(each, param, ctx) for each in value.split(",")]


OF_EACH = ChipsOfEach()


def check_chips_of_each(options: dict[str, Any]) -> None:
    """Refuse numbers of chips for several machines where one is asked."""
    name = next(iter(values_listed(options, WAYS)), None)
    if name is not None and len(targets(options["on"])) == 1:
        hint = "ask for one layout at a time, for the fastest by --search, or for a table by `roofline sweep`"
        raise InputError(f"{spelled(name)} has several values, one a machine, and one is asked", hint=hint)


def model_size(
    name: str,
    text: str | int | None,
    what: str = "size",
    hint: str = "a number, a list 1,8,64 or a range 1:512:*2",
    of: str | None = None,
    *,
    least: int | None = None,
    whole: bool = False,
) -> Any:
    """Read a number, or a list or range of them; one that is read already, as of one of several machines, stays.

    That of the target ``of`` may be open, and bears a name then. ``whole`` refuses fractions here, and lists its
    numbers; ``least`` is that of one number, which may be billions.
    """
    if not isinstance(text, str):
        return text
    value: Any = parse_size(name, text) if least is None else count(text, billion=True)
    each = value if isinstance(value, list) else [value]
    if least is not None:
        is_wrong = not isinstance(value, int) or not least <= value <= LARGEST
    elif whole:
        is_wrong = any(isinstance(number, str) or number % 1 != 0 for number in each)
    else:
        is_wrong = isinstance(value, str) and not _is_open(of, value)
    if is_wrong:
        raise InputError(f"{spelled(name)} {quoted(text)} is not a {what}", hint=hint)
    return [int(number) for number in each] if whole else value


def _is_open(target: str | None, name: str) -> bool:
    opened = open_shape(target)
    return opened is not None and name == opened[2]


def kept(text: str) -> int | str:
    """What a checkpoint keeps: a policy by name, or so many layers."""
    number = whole_number(text)
    return text if number is None else number


def kept_each(text: str | None) -> Any:
    """What a checkpoint keeps, or several such policies; modules with commas between them are one policy."""
    if text is None:
        return None
    from roofline.models.training.passes import CHECKPOINT_POLICIES

    parts = text.split(",")
    is_list = len(parts) > 1 and all(each in CHECKPOINT_POLICIES or each.isdecimal() for each in parts)
    return [kept(each) for each in parts] if is_list else kept(text)


#: What a number of chips is, and what may stand there.
_CHIPS = (
    "number of chips",
    "a number, or a list 1,2,4,8; a formula is of one number or of the n of h100:n, a sweep has a row for each",
)

#: How the text of an option about a model becomes an argument: of its name, its text and the target.
READERS: dict[str, Callable[[str, Any, str | None], Any]] = {
    "size": lambda name, text, on: model_size(name, text),
    "chips": lambda name, text, on: model_size(name, text, *_CHIPS, of=on),
    "parts": lambda name, text, on: model_size(name, text, "number of parts", _CHIPS[1]),
    "stages": lambda name, text, on: model_size(name, text, "ZeRO stage", "0, 1, 2, 3, or in a sweep a list 1,3"),
    "policies": lambda name, text, on: kept_each(text),
}


def check_once(command: click.Command, words: Sequence[str]) -> None:
    """Raise where an option of a command has two values, or two options give one thing two values."""
    long = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    single = next((word for word in words if len(word) > 2 and word[1] != "-" and f"-{word}" in long), None)
    if single is not None:  # -on h100 would read as -o n
        raise click.NoSuchOption(single, f"No such option {single!r}; that is written -{single}, with two dashes.")
    parser = command.make_parser(click.Context(command, resilient_parsing=True, **command.context_settings))
    given = parser.parse_args(list(words))[2]
    once = [each for each in given if isinstance(each, click.Option) and not (each.multiple or each.count)]
    for name, options in grouped((each.name or "", each) for each in once).items():
        if len(options) < 2 or _is_switch(command, options[0]):
            continue
        words = list(dict.fromkeys(option.opts[0] for option in options))
        if len(words) > 1:
            raise InputError(f"{in_a_row(words)} exclude each other", hint="give one of them")
        takes_list = "…" in (options[0].metavar or "")
        hint = f"several stand in one word: {words[0]} {options[0].metavar}" if takes_list else "give it once"
        raise InputError(f"{words[0]} is given {len(options)} times", hint=_ONCE.get(name, hint))


def _is_switch(command: click.Command, option: click.Option) -> bool:
    """Whether an option is on or not given, and nothing else sets what it sets."""
    alone = sum(other.name == option.name for other in command.params) == 1
    return option.is_flag and alone and not option.secondary_opts
