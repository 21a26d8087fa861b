"""The ``roofline`` command: each subcommand is loaded only when it runs; errors end with code 2, no traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import click

from roofline import __version__
from roofline.errors import OutOfMemoryError, RooflineError, suggest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from roofline.cli.command import CommandEntry

_COMMANDS = {
    "bound": "how fast can this run at best, and what limits it",
    "solve": "at which size, bandwidth or peak does the bottleneck flip",
    "advise": "what would move the bound, and by how much",
    "shard": "every legal plan of a sharded expression, ranked: what is sent, and what it costs",
    "scaling": "from which batch or width on, and up to how many chips, a layer scales",
    "comm": "a collective: how long, by which algorithm, and what else would do it",
    "layout": "what each chip holds of a sharded tensor",
    "formula": "the closed form of a bound: its terms, where they flip, what it depends on",
    "sweep": "a table over a grid of sizes",
    "plot": "roofline, throughput and time charts",
    "model": "language models side by side: parameters, FLOPs, memory, keys and values",
    "llm": "the floor of serving a language model: prefill and decode, operation by operation",
    "plan": "what to deploy for a load within limits: chips, layout, formats; and why not the others",
    "train": "the floor of training a language model: step, memory, days and cost of a token budget",
    "trace": "the operations of a PyTorch, JAX or ONNX program",
    "measure": "the ceilings of the machine you are on, written to a machine file",
    "run": "time operations here and show them under this machine's roof",
    "profile": "runs of a profiler or a CSV file under a machine's roof",
    "accuracy": "how far estimates are from measurements, by chip, library and kind of kernel",
    "calibrate": "constants of estimates from a few runs of your own",
    "explore": "a page in the browser: pick a chip and a line or a model, drag a slider, see what binds",
    "chips": "list, filter, compare and explain the machines of the catalog",
    "completion": "what makes bash, zsh or fish complete commands, options, chips and models",
}

#: The file of a command that shares one with its like; the others have one of their own name.
_FILES = {
    **dict.fromkeys(("bound", "advise", "formula", "solve", "sweep", "plot"), "lines"),
    **dict.fromkeys(("shard", "scaling", "comm", "layout"), "chips"),
    **dict.fromkeys(("model", "llm", "train", "plan"), "models"),
    **dict.fromkeys(("run", "profile", "accuracy", "calibrate"), "measure"),
    "completion": "command",
}


class _Lazy(click.Group):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        return _command(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ctx.resilient_parsing:  # completion asks what may follow
            return super().resolve_command(ctx, args)
        args = [args[0].lower(), *args[1:]] if args and args[0].lower() in _COMMANDS else args
        if args and args[0] not in _COMMANDS:
            hint = suggest(args[0], _COMMANDS, what="commands")
            hint = "help is roofline --help, or roofline COMMAND --help" if args[0] == "help" else hint
            raise click.UsageError(f"no command {args[0]!r}; {hint}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            from roofline.cli.command import WORDS
            from roofline.cli.option_values import check_once

            check_once(command, rest)
            ctx.meta[WORDS] = [command.name, *rest]
        return name, command, rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, without loading them."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=says) for name, says in _COMMANDS.items() if name.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def reference() -> Iterator[CommandEntry]:
    """Every command with its options by group, as data: the page of the reference is made from it.

    >>> first = next(reference())
    >>> first.name, list(first.groups)[:2]
    ('bound', ['machine', 'several chips'])
    >>> [option.words for option in first.groups["answer"]]
    [('--explain',), ('--json',), ('-o', '--output-file')]
    """
    from roofline.cli.command import entries

    return entries(_COMMANDS, _command)


@cache
def _command(name: str) -> click.Command:
    from importlib import import_module

    from roofline.cli.output import with_report

    found: click.Command = getattr(import_module(f"roofline.cli.{_FILES.get(name, name)}"), f"{name}_command")
    return with_report(found)


#: What a new user may try first.
_GREETING = """\
How fast can this run here at best, what limits it, and what would move the limit?

  roofline bound "bf16[64, 8192] * bf16[8192, 8192]" --on h100
  roofline llm llama-3-8b --on h100,h200 --batch 8 --context 8k
  roofline chips h100

roofline --help lists all commands; roofline COMMAND --help says what one takes.
"""


@click.group(
    cls=_Lazy,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(version=__version__, prog_name="roofline")
@click.pass_context
def cli(context: click.Context) -> None:
    """How fast can this run here at best, what limits it, and what would move the limit?"""
    if context.invoked_subcommand is None:
        click.echo(_GREETING, nl=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code: 0, 2 for wrong input, 3 where no plan or layout meets the limits.

    It is 130 where Ctrl-C ended it, also where what was done by then is shown.
    """
    from roofline.progress import stops
    from roofline.signatures import on_command_line

    with on_command_line(), stops() as stopped:
        code = _run(arguments)
    if stopped and code in (0, 3):
        click.echo("\n".join(f"{each}: what is shown is of these" for each in stopped), err=True)
        return 130
    return code


def _run(arguments: Sequence[str] | None) -> int:
    """Run the command line, errors as lines of text."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        ended = cli.main(args=words, prog_name="roofline", standalone_mode=False)
    except RooflineError as error:
        _show_error(str(error))
        return 2
    except MemoryError:
        _show_error(str(OutOfMemoryError()))
        return 2
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.UsageError as error:
        from roofline.cli.synonyms import explained

        said = explained(error, words, reference)
        usage = said.ctx and f"{said.ctx.get_usage()}\nTry '{said.ctx.command_path} --help' for help.\n"
        _show_error(said.format_message(), "Error", usage or "")
        return error.exit_code
    except click.ClickException as error:
        _show_error(error.format_message(), "Error")
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        place = f" {error.filename}" if error.filename else " the answer"
        _show_error(f"cannot read or write{place}: {error.strerror or error}")
        return 2
    return ended if isinstance(ended, int) else 0


def _show_error(said: str, head: str = "error", usage: str = "") -> None:
    from roofline.cli.output import show_error

    show_error(said, head, usage)


def run() -> None:
    """Entry point of the installed command."""
    import atexit
    import gc
    import threading
    from contextlib import suppress

    gc.set_threshold(500_000, 20, 20)  # loading modules makes no garbage: looking for it takes a twentieth of a command
    try:
        from roofline.cli.output import never_fail

        never_fail()
        code = main()
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
        code = 130
    gc.freeze()  # the process ends: a search for cycles in all that it loaded takes a sixth of a command
    if not atexit._ncallbacks() and threading.active_count() == 1:  # nothing waits for the end
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)
