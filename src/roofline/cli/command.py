"""Commands whose help shows the common options by group, and all of them under ``--help-all``.

>>> one = Option(["--batch"], group="what is asked", help="Sequences.", metavar="N")
>>> two = Option(["-o", "--output-file", "--output", "file"], group="answer", older=("--output",), help="A file.")
>>> one.word, two.word, two.shown, two.accepted
('--batch', '--output-file', '-o, --output-file', ('--output',))

For the page of the reference the command line is data too: every command with its options by group.

What completion offers behind an option or as a word of a command:

>>> [item.value for item in offered("policy", "f")], [item.value for item in offered("chip", "h100,mi35")]
(['fused'], ['h100,mi350x', 'h100,mi355x'])

``roofline completion``: what makes a shell complete the command line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from roofline.frozen import NamedTuple
from roofline.meanings import MEANINGS_OF
from roofline.sizes import grouped

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _as_written(word: str) -> str:
    """An option in any case, and with underscores: ``--Batch_Tokens``; a single letter stays as it is."""
    return word if len(word) == 1 else word.lower().replace("_", "-")


#: Where the context of a command holds the words it was given.
WORDS = "roofline.words"
#: What all commands do with help, and with words in another case.
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "token_normalize_func": _as_written}

#: Kinds of values that have no capitals: their case does not matter.
_FOLDED = ("dtype", "policy", "library", "convention", "kernel", "chip")

#: The widest column of options with their values.
WIDEST = 26

#: What help says of an option that may stand several times, where no comma in its form says so.
REPEATED = "May be repeated."

#: Examples that short help shows.
FIRST_EXAMPLES = 4

#: Where a context says that all options are asked for.
_WHOLE = "roofline.cli.whole"


class Option(click.Option):
    """An option with its group; ``values`` is what completion offers, ``older`` are words that are taken too."""

    def __init__(
        self,
        *words: Any,
        group: str = "answer",
        rank: int = 0,
        values: str = "",
        older: Sequence[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(*words, **more)
        self.group, self.rank, self.values, self.accepted = group, rank, values, tuple(older)
        self.means(self.help or "")

    def means(self, text: str) -> None:
        """Say what it means, where the table says something else."""
        self.help = text
        self.repeats = self.multiple and "," not in (self.metavar or "") and "repeat" not in text

    @property
    def words(self) -> list[str]:
        """The words that help shows."""
        return [word for word in self.opts if word not in self.accepted]

    @property
    def word(self) -> str:
        """The word that messages call it by."""
        return next((word for word in self.words if word.startswith("--")), self.opts[0])

    @property
    def shown(self) -> str:
        """Its words as help lists them: a short one before the long one."""
        short = [word for word in self.words if not word.startswith("--")]
        said = ", ".join([*short, self.word])
        return said + (f"/{self.secondary_opts[0]}" if self.secondary_opts else "")

    @property
    def says(self) -> str:
        """What it means, and whether it may stand several times."""
        return f"{self.help or ''} {REPEATED if self.repeats else ''}".strip()

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """The value as its type, in small letters where its kind has no capitals."""
        found = super().type_cast_value(ctx, value)
        folded = self.values in _FOLDED or " " in self.values
        return found.lower() if folded and isinstance(found, str) and not os.path.exists(found) else found

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of help: words, form of the value, meaning, default."""
        record = super().get_help_record(ctx)
        if record is None:
            return None
        form = "" if self.is_flag else f" {self.make_metavar(ctx)}"
        return self.shown + form, record[1].replace(self.help or "", self.says, 1)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What may stand here."""
        if not self.values or self.is_flag:
            return super().shell_complete(ctx, incomplete)
        return offered(self.values, incomplete)


def not_default(name: str) -> bool:
    """Whether an option was given."""
    return click.get_current_context().get_parameter_source(name) not in (None, ParameterSource.DEFAULT)


def word_given(names: Collection[str]) -> str:
    """The word of the first option of these names that was given; nothing where none was."""
    params = click.get_current_context().command.params
    return next((word_of(each) for each in params if each.name in names and not_default(each.name)), "")


def word_of(parameter: click.Parameter) -> str:
    """The word that messages call a parameter by."""
    return parameter.word if isinstance(parameter, Option) else parameter.opts[-1]


class Argument(click.Argument):
    """A word of a command; ``values`` is what completion offers."""

    def __init__(self, *words: Any, values: str = "", **more: Any) -> None:
        super().__init__(*words, **more)
        self.values = values

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What may stand here."""
        if not self.values:
            return super().shell_complete(ctx, incomplete)
        return offered(self.values, incomplete)


#: Libraries whose kernels an estimate may be of.
LIBRARIES = ("vllm", "trtllm", "sglang")


class Command(click.Command):
    """A command that knows which of its options are ``common``: all of them where none are named."""

    def __init__(self, *words: Any, common: str = "", **more: Any) -> None:
        more["context_settings"] = SETTINGS
        super().__init__(*words, **more)
        self.common = tuple(f"--{word}" for word in common.split())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words, a library behind ``--estimate`` too."""
        return super().parse_args(ctx, self.with_library(args))

    def with_library(self, words: Sequence[str]) -> list[str]:
        """The words with an option for each value: ``--estimate vllm`` is a flag, and the library that it names."""
        flags = {word: parameter for parameter in self.params for word in parameter.opts}
        if "--library" in flags and getattr(flags.get("--estimate"), "is_flag", False) and "--library" not in words:
            for at, word in enumerate(words[:-1]):
                if word == "--estimate" and words[at + 1].lower() in LIBRARIES:
                    return [*words[: at + 1], "--library", *words[at + 1 :]]
        return list(words)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its parameters, and ``--help-all``, which help names where it leaves some out."""
        return [*super().get_params(ctx), _help_all(hidden=not self.common)]

    def groups(self, whole: bool = True) -> dict[str, list[Option]]:
        """Its options by group, in the order of the table; the common ones where not ``whole``."""
        shown = [each for each in self.params if isinstance(each, Option) and not each.hidden]
        if not whole and self.common:
            unknown = set(self.common) - {each.word for each in shown}
            assert not unknown, f"{self.name} has no {unknown}"
            shown = sorted((each for each in shown if each.word in self.common), key=self._order)
        found = grouped((each.group, each) for each in sorted(shown, key=lambda option: option.rank))
        return found

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what it answers, with the first examples; all of them where all options are asked for."""
        text, mark, examples = cleandoc(self.help or "").partition("\b\n")
        lines = examples.rstrip().splitlines()
        if self.common and not ctx.meta.get(_WHOLE):
            lines = lines[:FIRST_EXAMPLES]
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text.rstrip())
            if mark:
                formatter.write_paragraph()
                formatter.write("".join(f"  {line.strip()}\n" for line in lines))

    def _order(self, option: Option) -> int:
        return self.common.index(option.word)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, a section a group, and how to see the rest."""
        groups = self.groups(whole=bool(ctx.meta.get(_WHOLE)))
        records = {
            group: [each.get_help_record(ctx) or ("", "") for each in listed] for group, listed in groups.items()
        }
        most = max((len(words) for rows in records.values() for words, _ in rows if len(words) <= WIDEST), default=0)
        for group, rows in records.items():
            formatter.write_paragraph()
            formatter.write(f"{group.capitalize()}:\n")
            for words, said in rows:
                formatter.write(_line(words, said, most, formatter.width))
        left = len(self.params) - sum(map(len, groups.values()))
        left -= sum(isinstance(each, click.Argument) for each in self.params)
        formatter.write_paragraph()
        if left:
            formatter.write_text(f"{left} more options: {ctx.command_path} --help-all")


def _line(words: str, said: str, column: int, width: int) -> str:
    """An option's words, and beside them what it means: no word is broken.

    >>> print(_line("--kv DTYPE", "Format of keys and values (default: as activations).", 12, 44), end="")
      --kv DTYPE    Format of keys and values
                    (default: as activations).
    """
    from textwrap import wrap

    lines = wrap(said, max(width - column - 4, 20), break_long_words=False, break_on_hyphens=False)
    head = f"  {words:{column}}  {lines[0] if lines else ''}"
    if len(words) > column:
        head = f"  {words}\n{'':{column + 4}}{lines[0] if lines else ''}"
    return "\n".join([head, *(f"{'':{column + 4}}{line}" for line in lines[1:])]).rstrip() + "\n"


def _help_all(hidden: bool) -> click.Option:
    def show(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
        if asked and not ctx.resilient_parsing:
            ctx.meta[_WHOLE] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    said = "Show all options."
    return click.Option(
        ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show, help=said, hidden=hidden
    )


def command_named(name: str, common: str = "") -> Callable[[Any], Any]:
    """Make a command; ``common`` are the options that its help shows first.

    Of an option that means something else here than in other commands :data:`MEANINGS_OF` says what.
    """

    def make(function: Any) -> Any:
        made = click.command(name, cls=Command, common=common)(function)
        own = MEANINGS_OF.get(name, {})
        for each in made.params:
            if isinstance(each, Option) and each.name in own:
                each.means(own[each.name])
        return made

    return make


def argument(name: str, values: str = "", **more: Any) -> Callable[[Any], Any]:
    """A word of a command; ``values`` is what completion offers."""
    return click.argument(name, cls=Argument, values=values, **more)


class OptionEntry(NamedTuple):
    """An option of a command: its words, the form of its value, what it means, its default, words it takes too."""

    words: tuple[str, ...]
    form: str
    says: str
    default: str
    older: tuple[str, ...]
    common: bool


class CommandEntry(NamedTuple):
    """A command: what it answers, how it is called, its examples, and its options by group."""

    name: str
    says: str
    usage: str
    text: str
    examples: tuple[str, ...]
    groups: dict[str, tuple[OptionEntry, ...]]


def entries(commands: dict[str, str], load: Callable[[str], click.Command]) -> Iterator[CommandEntry]:
    """A command after the other, from the commands themselves."""
    for name, says in commands.items():
        found = load(name)
        context = click.Context(found, info_name=f"roofline {name}", **found.context_settings)
        text, _, examples = (found.help or "").partition("\b\n")
        groups = found.groups() if isinstance(found, Command) else {}
        yield CommandEntry(
            name,
            says,
            found.get_usage(context).removeprefix("Usage: "),
            " ".join(text.split()),
            tuple(line.strip() for line in examples.splitlines() if line.strip()),
            {group: tuple(_entry(each, found, context) for each in listed) for group, listed in groups.items()},
        )


def _entry(option: Option, command: Any, context: click.Context) -> OptionEntry:
    default = str(option.default) if option.show_default and option.default is not None else ""
    words = (*option.words, *option.secondary_opts)
    form = "" if option.is_flag else option.make_metavar(context)
    common = not command.common or option.word in command.common
    return OptionEntry(words, form, option.says, default, option.accepted, common)


def offered(kind: str, incomplete: str) -> list[CompletionItem]:
    """Values of a kind that begin like an incomplete word; behind a comma those of the next one.

    ``kind`` is a key of ``VALUES``, ``file``, or the values themselves with blanks between them.
    """
    from click.shell_completion import CompletionItem

    if kind == "file":
        return [CompletionItem(incomplete, type="file")]
    before, comma, begun = incomplete.rpartition(",")
    found = [
        CompletionItem(before + comma + value) for value in _values(kind) if value.lower().startswith(begun.lower())
    ]
    return found or [CompletionItem(incomplete, type="file")] if kind in ("chip", "model") else found


def _chips() -> Iterable[str]:
    from roofline.hardware.catalog import system_names
    from roofline.hardware.targets import names

    return [*sorted(names()), *system_names(), "this"]


#: What there is of each kind: the values, what gives them, or the ``module:name`` of these.
VALUES: dict[str, str | Callable[[], Iterable[str]]] = {
    "chip": _chips,
    "model": "roofline.models.config:names",
    "dtype": "roofline.dtypes:names",
    "policy": "roofline.bounds.memory:BYTE_POLICIES",
    "algorithm": "roofline.ops.collectives.cost:algorithm_names",
    "convention": "roofline.ops.counting:CONVENTIONS",
    "condition": "roofline.bounds.scaling:CONDITIONS",
    "unit": "matrix vector",
    "level": "main hbm dram gddr l2 l3 vmem smem pcie warm",
    "library": "vllm trtllm sglang",
    "kernel": "gemm attention moe collective",
}


def _values(kind: str) -> Iterable[str]:
    found: Any = VALUES.get(kind, kind)
    if isinstance(found, str) and ":" in found:
        module, _, name = found.partition(":")
        found = getattr(import_module(module), name)
    found = found() if callable(found) else found
    return (*["auto"] * (kind == "algorithm"), *(found.split() if isinstance(found, str) else found))


SHELLS = ("bash", "zsh", "fish")


@command_named("completion")
@argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print what makes a shell complete commands, options, chips, models, formats and policies; open a new one then.

    \b
    roofline completion bash >> ~/.bashrc
    roofline completion zsh >> ~/.zshrc
    roofline completion fish > ~/.config/fish/completions/roofline.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(click.get_current_context().find_root().command, {}, "roofline", "_ROOFLINE_COMPLETE").source()
    if shell == "zsh":  # a plain ~/.zshrc has not loaded what completes
        click.echo("(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }")
    # a value may hold commas, as in --on h100,b200: what stands before the first one is its kind
    click.echo(script.replace('string split "," $completion', 'string split --max 1 "," $completion'))
