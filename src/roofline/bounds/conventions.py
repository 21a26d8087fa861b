"""Conventions: what may be taken one way or another in an answer, as one frozen value.

Each field says how it is checked, how it is written on a command line and what it means. Keyword arguments, options of
commands, the ``options`` of JSON and the table in ``docs/conventions.md`` follow from these fields.

>>> Conventions(overlap=0.5, overhead="5us").changes()
{'overlap': 0.5, 'overhead': 5e-06}
>>> Conventions(tile=[128, 128, 64]).policy
'tiled'
>>> Conventions(overlap=2)
Traceback (most recent call last):
roofline.errors.InputError: overlap 2 is not a fraction; 0 is no overlap, 1 is all of it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from roofline.bounds.memory import BYTE_POLICIES, Tile, check_policy, missing_tile
from roofline.errors import InputError, quoted
from roofline.frozen import NamedTuple, dataclass, field, fields
from roofline.hardware.machine import Machine
from roofline.hardware.rate import WARM, data_level
from roofline.meanings import MEANINGS
from roofline.quantity import Figure, format_percent, format_quantity, given_amount
from roofline.signatures import either, spelled
from roofline.sizes import UNEVEN, Size, check, plain_number
from roofline.statements import Assumption

if TYPE_CHECKING:
    from roofline.ops.collectives.routing import Density


class Setting(NamedTuple):
    """How a convention is set: what it means, which values it takes, how it stands on a command line.

    ``group`` is where its option stands (``work``, ``network``, ``mesh`` or ``estimate``), ``form`` what the text of
    the option is: text, flag, share, tile, axes, mesh, algorithms, choice, yes or no. ``option`` is its name where that
    is not the field's own, ``option_help`` what it means where that is not what the argument means.
    """

    help: str
    group: str
    form: str = "text"
    metavar: str = ""
    option: str = ""
    option_help: str = ""
    check: Callable[[Any], Any] | None = None
    choices: tuple[str, ...] = ()
    default: Any = None

    def explain(self, default: str | None = "each-op") -> str:
        """What it means in one line; it names the byte policies, the ``default`` one first where one is named."""
        names = sorted(BYTE_POLICIES, key=lambda name: name != default)
        others = ", ".join(f"{name} ({BYTE_POLICIES[name].brief}{', default' * (name == default)})" for name in names)
        return self.help.replace("{policies}", others)

    def explain_option(self, default: str = "") -> str:
        """What its option means in one line."""
        return self.option_help or self.explain(default or "each-op")


def fraction(value: float, what: str = "overlap", hint: str = "0 is no overlap, 1 is all of it") -> float:
    """Take a share from 0 to 1, a number of any kind; anything else is an error.

    >>> from fractions import Fraction
    >>> fraction(1), fraction(Fraction(1, 4))
    (1.0, 0.25)
    >>> fraction(True)
    Traceback (most recent call last):
    roofline.errors.InputError: overlap True is not a fraction; 0 is no overlap, 1 is all of it
    """
    number = plain_number(value)
    if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= 1:
        return float(number)
    raise InputError(f"{what} {quoted(value)} is not a fraction", hint=hint)


def _density(value: Any) -> Density:
    if not isinstance(value, int | float | str):  # the routing of a dispatch, which `comm` makes
        from roofline.ops.collectives.routing import TopKRouting

        if isinstance(value, TopKRouting):
            return value
    share = fraction(value, "density", "the share of an AllToAll that is sent, from 0 to 1")
    return 1 if share == 1 else share


def _plan(value: Any) -> str | int:
    if isinstance(value, str | int):
        return value
    raise InputError(f"plan is {quoted(value)}", hint=f"its rank, as in {spelled('plan', 2)}, or words of its name")


def _tile(tile: Sequence[int]) -> Tile:
    if isinstance(tile, str) or getattr(tile, "ndim", 1) != 1 or not hasattr(tile, "__len__") or len(tile) != 3:
        raise InputError(f"a tile is three sizes, not {quoted(tile)}", hint="bm, bn, bk, as in tile=(128, 128, 64)")
    bm, bn, bk = (check(name, value) for name, value in zip(("bm", "bn", "bk"), tile, strict=True))
    return bm, bn, bk


def named_axes(mesh: Any) -> dict[str, Any]:
    """Take the axes that a caller gave by name; none is none."""
    if mesh is not None and not isinstance(mesh, Mapping):
        raise InputError(f"mesh is {quoted(mesh)}", hint="give axes by name, as in mesh={'X': 4, 'Y': 8}")
    as_given = (str, list, tuple, range)
    return {axis: size if isinstance(size, as_given) else check(axis, size) for axis, size in (mesh or {}).items()}


def _convention(default: Any, help: str, group: str, **rest: Any) -> Any:
    """A field with its default, or what makes it, and how it is set."""
    made = {"default_factory" if callable(default) else "default": default}
    return field(**made, metadata={"setting": Setting(help, group, **rest)})


@dataclass(frozen=True, slots=True, eq=False)
class Conventions:
    """What an answer counts and how: bytes, FLOPs, several chips, an estimate. Every field has a default."""

    policy: str = _convention("", "Which bytes count: {policies}; a list compares.", "work", metavar="POLICY[,…]")
    tile: Tile | None = _convention(
        None, "Contractions load operands again for every tile: rows, columns, depth.", "work", form="tile",
        metavar="BM,BN,BK", check=_tile,
    )  # fmt: skip
    exact: bool = _convention(False, "Count 2D-1 rather than 2D FLOPs for a sum over D.", "work", form="flag")
    count_padding: bool = _convention(
        True, "Count a convolution's padded positions like any other.", "work", form="flag", option="valid-only",
        option_help="Leave a convolution's padded positions out of the FLOPs.",
    )  # fmt: skip
    pad: bool = _convention(False, "Round matrix sizes up to the matrix unit's tile.", "work", form="flag")
    compute: str | None = _convention(
        None, "Arithmetic dtype, where the operands' wider one is not meant.", "work", metavar="DTYPE"
    )
    mesh: Mapping[str, Size] = _convention(
        dict, "Mesh axes: X=4,Y=8, or X=n.", "network", form="mesh", metavar="AXIS=SIZE,…", check=named_axes
    )
    algorithm: str | Mapping[str, str] | None = _convention(
        None, "Of collectives: auto, tree …; or of each kind: AllReduce=tree.", "network", form="algorithms",
        metavar="NAME",
    )  # fmt: skip
    wrap: bool | None = _convention(None, "Whether the axes of a torus close.", "network", form="yes or no")
    plan: str | int | None = _convention(
        None, "The plan of a sharded expression: its rank, or words of its name.", "mesh", metavar="PLAN", check=_plan
    )
    uneven: str = _convention("error", "Sizes that do not divide.", "mesh", form="choice", choices=UNEVEN)
    use: tuple[str, ...] = _convention(
        (), "Axes that plans may use though nothing is sharded over them.", "mesh", form="axes", metavar="AXES",
        check=tuple,
    )  # fmt: skip
    density: float = _convention(
        1, "Share of an AllToAll's array that is sent (0 to 1).", "mesh", form="share", metavar="SHARE", check=_density
    )
    overlap: float | None = _convention(
        None, "Estimate: this share of times overlaps.", "estimate", form="share", metavar="FRACTION", check=fraction
    )
    overhead: Figure | None = _convention(
        None, "Estimate with this time for every operation started (5us).", "estimate", metavar="TIME",
        check=partial(given_amount, "overhead", zero=True),
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check the fields whose setting has a check; text with a unit becomes a number.

        What the rest may be hangs on the network, the program or the machine; it is checked where that is known.
        """
        for each in fields(self):
            taken, value = each.metadata["setting"].check, getattr(self, each.name)
            if taken is not None and not (value is None and each.default is None):
                object.__setattr__(self, each.name, taken(value))
        if not self.policy:
            object.__setattr__(self, "policy", "each-op" if self.tile is None else "tiled")
        check_policy(self.policy)
        if self.tile is not None and self.policy != "tiled":
            wrong = f"{spelled('tile')} goes with {spelled('policy', 'tiled')}, not {self.policy!r}"
            raise InputError(wrong, hint="give one of the two")
        if self.tile is None and self.policy == "tiled":
            raise missing_tile()

    def changes(self) -> dict[str, Any]:
        """The fields that are not at their default, by name."""
        usual = {each.name: getattr(DEFAULT, each.name) for each in fields(self)}
        given = {name: getattr(self, name) for name in usual}
        return {name: value for name, value in given.items() if value is not usual[name] and value != usual[name]}

    def said(self, machine: Machine, *, raw: bool = False, of_model: bool = False) -> list[Assumption]:
        """What every answer takes for granted: how FLOPs, rates and bytes are counted; raw work has no tensors.

        That of a model says where data starts if that was chosen.
        """
        counting = "exact FLOPs: one add fewer than multiplies per output" if self.exact else "2 FLOPs per multiply-add"
        found = [Assumption("counting", counting), rates_said(machine)]
        if not raw:
            where = "whichever level holds it all" if machine.over == WARM else data_level(machine).name
            starts = "" if of_model and machine.over in (None, "main") else f"; data starts in {where}"
            found.append(Assumption("bytes", f"{BYTE_POLICIES[self.policy].text}{starts}"))
        return found

    def estimate_said(self) -> list[Assumption]:
        """What an estimate was asked with."""
        found = []
        if self.overlap is not None:
            found.append(f"the estimate lets {format_percent(self.overlap)} of the shorter times overlap")
        if self.overhead is not None:
            found.append(f"the estimate adds {format_quantity(self.overhead, 's')} for every operation started")
        return [Assumption("estimate", text) for text in found]


def rates_said(machine: Machine) -> Assumption:
    """Which rates of a machine are taken: measured fractions, measured peaks, or those of the data sheet."""
    if machine.use_achievable:
        text = "measured fractions of the data-sheet rates where known"
    elif measured_of(machine) == "peaks too":
        text = "the highest rates measured on this machine, in registers and from each memory level"
    else:
        given = ", but for the figures given by the caller" if machine.given else ""
        text = f"dense data-sheet peaks and one-way bandwidths{given}"
    return Assumption("rates", text)


def measured_of(machine: Machine) -> str:
    """What of a machine was measured: the ``bandwidth`` data comes at, ``peaks too``, or nothing."""
    bandwidth = data_level(machine).bandwidth
    if bandwidth is None or bandwidth.basis != "measured":
        return ""
    peaks = any(figure.basis == "measured" for unit in machine.units for figure in unit.peaks.values())
    return "peaks too" if peaks else "bandwidth"


#: Conventions at their defaults.
DEFAULT = Conventions()

#: Names of the conventions.
NAMES = tuple(each.name for each in fields(Conventions))

#: Conventions of operations wherever they come from: a line, a model, a program.
OF_OPERATIONS = ("policy", "tile", "overlap", "overhead")


def taken_from(options: dict[str, Any], policy: str = "each-op") -> Conventions:
    """Take the conventions of operations out of some options; ``policy`` is the default one.

    >>> options = {"overlap": 1, "weights": "int8"}
    >>> taken_from(options, "minimal").changes(), options
    ({'policy': 'minimal', 'overlap': 1.0}, {'weights': 'int8'})
    """
    chosen = {name: options.pop(name) for name in OF_OPERATIONS if name in options}
    if chosen.get("policy") is None and chosen.get("tile") is None:
        chosen["policy"] = policy
    return Conventions(**chosen)


@cache
def settings() -> dict[str, Setting]:
    """How each convention is set, by its name."""
    defaults = {name: getattr(DEFAULT, name) for name in NAMES}
    return {each.name: each.metadata["setting"]._replace(default=defaults[each.name]) for each in fields(Conventions)}


def word_of(argument: str) -> str:
    """An argument as the caller writes it: that of a convention may have another name on the command line.

    >>> from roofline.signatures import on_command_line
    >>> with on_command_line():
    ...     word_of("count_padding"), word_of("dtype")
    ('--valid-only', '--dtype')
    """
    known = settings().get(argument)
    return spelled(argument) if known is None else either(spelled(known.option or argument), spelled(argument))


def table() -> str:
    """The conventions as a table in Markdown: ``docs/conventions.md`` holds it."""
    rows = ["| argument | option | default | what it says |", "|---|---|---|---|"]
    for name, setting in settings().items():
        word = setting.option or name
        option = f"--{word}" + (f" {setting.metavar}" if setting.metavar else "")
        option = f"--{word}, --no-{word}" if setting.form == "yes or no" else option
        default = "" if setting.default in (None, {}, ()) else f"`{setting.default}`"
        said = setting.explain() + (f" `--{word}`: {setting.option_help}" if setting.option_help else "")
        rows.append(f"| `{name}` | `{option}` | {default} | {said} |")
    return "\n".join(rows)


MEANINGS.update({each.name: each.metadata["setting"].explain(None) for each in fields(Conventions)})
