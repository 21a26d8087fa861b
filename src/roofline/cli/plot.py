"""``roofline plot``: roofline, throughput and time charts, to a file or in the terminal."""

from __future__ import annotations

from typing import Any

from roofline.cli.command import argument, command_named
from roofline.cli.model_options import not_alone
from roofline.cli.option_table import DESCRIBED, EXPECT, MESH, WORK, option, options, output_option, with_options
from roofline.cli.option_values import expectation_wanted, question_arguments, split_words, targets
from roofline.cli.output import ChartKind, check_json_beside, data_or_picture, show_chart, show_json
from roofline.errors import InputError

#: Options that say nothing without another: a terminal has a width and colours of its own.
_BESIDE = dict.fromkeys(("dark", "width"), ("output",))


@command_named("plot", "on vary kind ceiling level points flops bytes intensity width dark json")
@argument("words", nargs=-1, metavar="[EXPRESSION]... [SIZE=VALUES]...")
@with_options(option("vary"), option("kind", type=ChartKind("roofline", "size")))
@with_options(option("on", name="machines", metavar="TARGET[,TARGET]…"), DESCRIBED, MESH, WORK, EXPECT)
@with_options(
    *options("name ceiling level bandwidth points title dark"),
    output_option("Write .svg, .png or .pdf (default: draw in the terminal); .json, .txt.", callback=data_or_picture),
    *options("width json"),
)
def plot_command(
    words: tuple[str, ...],
    vary: str | None,
    output: str | None,
    width: int | None,
    as_json: bool,
    dark: bool,
    **options: Any,
) -> None:
    """Roofline of machines with operations as points; or throughput or time over a size.

    \b
    roofline plot --on h100,a100 "bf16[512, 8192] @ bf16[8192, 8192]" -o roof.png
    roofline plot "bf16[B, D] * bf16[D, F]" --on v5e --vary B=1:511 D=1024,4096 F=D -o knees.svg
    roofline plot "fp16[B, D] * fp16[D, F]" --on a100 --kind time --vary B=1:512 D=5120 F=5120
    """
    from roofline.charts.plot import plot

    not_alone(_BESIDE)
    check_json_beside(output, as_json)
    expressions, sizes = split_words(words, lists=True)
    over = _vary(vary, sizes)
    drawing = {
        name: options.pop(name) for name in ("names", "dtypes", "levels", "bandwidths", "measured", "title", "kind")
    }
    machines, drawing = options.pop("machines"), {**drawing, **expectation_wanted(options)}
    arguments = question_arguments({**options, "on": None})
    chart = plot(
        *expressions,
        on=[name for name in targets(machines) if name] or None,
        vary=over,
        sizes=sizes,
        theme="dark" if dark else "light",
        **drawing,
        **{name: value for name, value in arguments.items() if value is not None and value not in ({}, ())},
    )
    if as_json:
        show_json(chart.to_dict())
    else:
        show_chart(chart, output, width)


def _vary(text: str | None, sizes: dict[str, Any]) -> str | None:
    """Read ``--vary B=1:511`` into the sizes and return the name."""
    if text is None:
        return None
    _, given = split_words([text], lists=True) if "=" in text else ([], {text: None})
    if not given:
        raise InputError(f"--vary {text!r} is not a size", hint="for instance --vary B=1:511")
    name = next(iter(given))
    if given[name] is not None:
        if name in sizes:
            raise InputError(f"size {name} is given twice", hint=f"leave {name} out of the rest")
        sizes[name] = given[name]
    return name
