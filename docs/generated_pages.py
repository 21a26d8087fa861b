"""Pages of the docs that follow from the package and the other pages: commands, pictures, a schema, sources, operators.

``docs/conf.py`` writes them into ``docs/generated/`` before a build; a test reads them for what must stand there.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs import answer_parts

if TYPE_CHECKING:
    from roofline.cli.command import CommandEntry
    from roofline.hardware.machine import Alternate, Machine

DOCS = Path(__file__).resolve().parent

#: The keys of every answer's JSON: parts and schemas.
JSON_KEYS: dict[str, Any] = tomllib.loads((DOCS / "json_keys.toml").read_text(encoding="utf-8"))

#: The pages of the JSON's keys: title, and the schemas that stand there.
JSON_PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "bounds": (
        "bounds and flips",
        (
            "comparison",
            "comparison-by-size",
            "bound",
            "solution",
            "solution-time",
            "dtypes",
            "equal",
            "zones",
            "advice",
        ),
    ),
    "grids": ("grids, formulas and charts", ("sweep", "machine-sweep", "step-sweep", "grid", "formula", "chart")),
    "many_chips": ("many chips", ("comm", "plans", "layout", "scaling", "scalings")),
    "serving": ("models and serving", ("model", "llm")),
    "training": ("training", ("train", "budget", "training-memory", "train-search")),
    "programs": ("programs and profiles", ("trace", "points")),
    "machines": ("chips and this machine", ("chips", "ratios", "measurement")),
    "accuracy": ("accuracy", ("accuracy", "held-accuracy", "calibration", "advised-runs")),
}

#: A picture of a page, and a command or a line of Python that writes a file of the same name.
_PLACE = re.compile(
    r"(?P<page>https?://[^\s,()]*[\w/])|[/@:_](?!(?:s|sec|clk)\b)"
    r"|(?<![\w./-])(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<commit>[0-9a-f]{7,40}))?:(?P<file>[\w./+-]*\w)"
)
_PICTURE = re.compile(r"^!\[(?P<says>[^\]]+)\]\(images/(?P<name>[\w-]+\.svg)\)", re.MULTILINE)
_COMMAND = r"^(?:\$|>>>) ([^\n]*{name}[^\n]*)$"

#: The day on which every chip's peaks and bandwidths were last held against public sources.
FIGURES_CHECKED = "2026-11-28"

#: Letters of a name that a phone shows in a line.
LONGEST_NAME = 40

#: Pages whose pictures the gallery shows, in its order.
GALLERY = ("tour", "recipes", "seeds", "serving", "plans", "programs", "measuring", "many_chips")


def command_pages() -> dict[str, str]:
    """A page that leads to every command and option, and a page for each command."""
    from roofline.cli import reference

    listed = list(reference())
    takers: dict[str, list[str]] = {}
    for command in listed:
        for option in (each for group in command.groups.values() for each in group):
            takers.setdefault(", ".join((*option.words, *option.older)), []).append(
                f"[{command.name}](commands/{command.name}.md)"
            )
    lines = [
        "# All commands and options",
        "",
        "*For whoever knows the command and looks for the option, or the other way round.* The same stands in a",
        "terminal under `roofline COMMAND --help-all`. Which command answers a question says [](../questions.md).",
        "",
        "| command | what it answers |",
        "|---|---|",
        *(f"| [`{each.name}`](commands/{each.name}.md) | {_cell(each.says)} |" for each in listed),
        "",
        "## Which command takes an option",
        "",
        "| option | commands |",
        "|---|---|",
        *(f"| `{words}` | {', '.join(takers[words])} |" for words in sorted(takers, key=lambda each: each.lstrip("-"))),
        "",
        *_below(f"commands/{each.name}" for each in listed),
    ]
    return {"commands": "\n".join(lines) + "\n"} | {f"commands/{each.name}": _command_page(each) for each in listed}


def _command_page(command: CommandEntry) -> str:
    """A command with all its options by group, examples first."""
    lines = [
        f"# roofline {command.name}",
        "",
        f"*For whoever looks for an option of `roofline {command.name}`.*",
    ]
    lines += [_options_as_code(command.text), "", f"    {command.usage}", ""]
    if command.examples:
        lines += ["```console", *(f"$ {each}" for each in command.examples), "```", ""]
    for heading, options in command.groups.items():
        lines += [f"## {heading[:1].upper()}{heading[1:]}", "", "| option | what it says |", "|---|---|"]
        for option in options:
            words = ", ".join(option.words) + (f" {option.form}" if option.form else "")
            default = f" Default: `{option.default}`." if option.default else ""
            older = f" Also {', '.join(f'`{word}`' for word in option.older)}." if option.older else ""
            lines.append(f"| `{_cell(words)}` | {_options_as_code(_cell(option.says))}{default}{older} |")
        lines.append("")
    return "\n".join(lines) + "\n"


def _below(pages: Iterable[str]) -> list[str]:
    """The pages that a page leads to."""
    return ["```{toctree}", ":maxdepth: 1", ":hidden:", "", *pages, "```"]


def gallery_page() -> str:
    """Every picture of the pages with the command that drew it, which is a click away."""
    lines = [
        "# Gallery",
        "",
        "*For whoever wants a picture like one of these.* Each leads to the page with its command.",
        "",
        "::::{container} gallery",
    ]
    for page, says, name, command in pictures():
        lines += [
            f":::{{figure}} ../images/{name}",
            f":alt: {says}",
            f":target: ../{page}.html",
            "",
            f"[{says}](../{page}.md)",
            "",
            *([f"<small><code>{_unbroken(command)}</code></small>"] if command else []),
            ":::",
            "",
        ]
    return "\n".join([*lines, "::::", ""])


def _unbroken(command: str) -> str:
    """A command whose words, and options among them, go on below as a whole."""
    return " ".join(f'<span class="pre">{_html(word)}</span>' for word in command.split())


def pictures() -> Iterator[tuple[str, str, str, str]]:
    """Pictures of the pages: page, what it shows, the file, and the command that draws it where the page has one."""
    for page in GALLERY:
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        for found in _PICTURE.finditer(text):
            drawn = re.findall(_COMMAND.format(name=re.escape(found["name"])), text, re.MULTILINE)
            yield page, found["says"], found["name"], drawn[0] if drawn else ""


def plan_schema_page() -> str:
    """The keys of a plan's JSON, by the schema that is shipped."""
    import roofline

    path = Path(roofline.__file__).parent / "plans" / "plan.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    lines = [
        "# The schema of a plan",
        "",
        "*For whoever reads `roofline plan --json` by a program.* The same stands in the package as the JSON Schema",
        "`roofline/plans/plan.schema.json` (draft 2020-12). Units are SI; a version's keys only grow.",
        "",
    ]
    for name, part in {"plan": schema, **schema["$defs"]}.items():
        said = part["description"].rstrip(".")
        lines += [f"## {name}", "", f"{said[:1].upper()}{said[1:]}.", ""]
        lines += ["| key | type | what it says |", "|---|---|---|", *_keys(part, ""), ""]
    return "\n".join(lines) + "\n"


def json_pages() -> dict[str, str]:
    """The keys of what ``--json`` prints: a page that leads to the schemas, and a page for each kind of question.

    A part that one page alone uses stands there; what several use, on the page of shared parts.
    """
    schemas, parts = JSON_KEYS["schemas"], JSON_KEYS["parts"]
    users: dict[str, set[str]] = {name: set() for name in parts}
    for page, (_, held) in JSON_PAGES.items():
        for name in held:
            _used_by(page, schemas[f"roofline/{name}/1"], users)
    home = {name: next(iter(pages)) if len(pages) == 1 else "shared" for name, pages in users.items()}
    lines = [
        "# The keys of the JSON",
        "",
        "*For whoever reads an answer by a program.* `--json` prints what `to_dict()` gives: plain SI units, and null",
        "where something is unknown or open. A key of an option that was not given is absent, so read it by `.get()`;",
        "a phase that was not asked is null. `schema` is the first key; within a version keys are only added. Behind",
        "a name, `[]` is a list of objects and `{}` an object whose names are data, such as resources or sizes. A",
        "figure is a list where a size was one. What `plan` prints is [a JSON Schema](plan_schema.md).",
        "",
        "| command | schema |",
        "|---|---|",
    ]
    found = {}
    for page, (title, held) in JSON_PAGES.items():
        text = [f"# JSON: {title}", "", f"*For whoever reads the JSON of {title} by a program.* What the signs mean"]
        text += ["stands on the page [](../json.md).", ""]
        for name in (f"roofline/{each}/1" for each in held):
            part = schemas[name]
            lines.append(f"| {part['says']} | [`{name}`](json/{page}.md#{_anchor(name)}) |")
            text += [f"## {name}", ""]
            if "@" in part:
                text += [f"{part['says'].rstrip('.')}: the keys of {_part_link(part['@'], page, home)}.", ""]
            else:
                text += [f"{part['says'].rstrip('.')}.", "", *_key_table(part, page, home)]
        found[f"json/{page}"] = text + _parts(page, home)
    found["json/shared"] = ["# JSON: parts of several answers", "", "*For whoever follows a key to what is inside it.*"]
    found["json/shared"] += ["What the signs mean stands on the page [](../json.md).", "", *_parts("shared", home)]
    found["json"] = [*lines, "", *_below(found)]
    return {name: "\n".join(text) + "\n" for name, text in found.items()}


def _used_by(page: str, part: dict[str, str], users: dict[str, set[str]]) -> None:
    """Note that a page uses the parts of a part."""
    inner = (said.partition("|")[0].strip() for key, said in part.items() if key not in ("says", "@"))
    for name in (part.get("@", ""), *(said[1:] for said in inner if said[:1] == "@")):
        if page not in users.get(name, {page}):
            users[name].add(page)
            _used_by(page, JSON_KEYS["parts"][name], users)


def _parts(page: str, home: dict[str, str]) -> list[str]:
    """The tables of the parts that stand on a page."""
    held = [name for name in home if home[name] == page]
    lines = ["## Parts", "", "What stands inside these answers.", ""] if held and page != "shared" else []
    for name in held:
        lines += [f"## {name}" if page == "shared" else f"### {name}", ""]
        lines += _key_table(JSON_KEYS["parts"][name], page, home)
    return lines


def _part_link(name: str, page: str, home: dict[str, str]) -> str:
    return f"[{name.replace('_', '_<wbr>')}]({'' if home[name] == page else home[name] + '.md'}#{name})"


def _key_table(part: dict[str, str], page: str, home: dict[str, str]) -> Iterator[str]:
    yield from ("| key | unit | what it is |", "|---|---|---|")
    for key, said in part.items():
        if key != "says":
            unit, _, meaning = (word.strip() for word in said.partition("|"))
            inner = unit[1:] if unit[:1] == "@" else ""
            linked = "see its schema" if inner == "schema" else _part_link(inner, page, home) if inner else unit
            yield f"| {'any name' if key == '*' else _key(key)} | {linked} | {_cell(meaning)} |"
    yield ""


def _key(name: str) -> str:
    """A key as code that a narrow column may break behind a dot or an underscore, but for one that it begins with."""
    broken = re.sub(r"(?<=[^_>])_", r"\\_<wbr>", name.replace(".", ".<wbr>"))
    return "<code>" + re.sub(r"(?<!\\)_", r"\\_", broken) + "</code>"


def _anchor(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^a-z0-9_-]", "", heading.lower().replace(" ", "-"))


def _keys(part: dict[str, Any], before: str) -> Iterator[str]:
    for key, value in part["properties"].items():
        inner = next((each for each in (value, *value.get("anyOf", ())) if "properties" in each), None)
        yield f"| {_key(before + key)} | {_type(value)} | {_cell(value.get('description', ''))} |"
        if inner is not None:
            yield from _keys(inner, f"{before}{key}.")


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "anyOf" in value:
        return " or ".join(_type(each) for each in value["anyOf"])
    if "const" in value or "enum" in value:
        return ", ".join(f"`{each}`" for each in value.get("enum", [value.get("const")]))
    kinds = value["type"] if isinstance(value["type"], list) else [value["type"]]
    of = f" of {_type(value['items'])}" if isinstance(value.get("items"), dict) else ""
    return " or ".join(kind + (of if kind == "array" else "") for kind in kinds)


def source_pages() -> dict[str, str]:
    """Peaks and bandwidths of every chip with their sources: a page that leads to a page for each family of chips."""
    from roofline.hardware import chips

    families: dict[str, list[Machine]] = {}
    for machine in sorted(chips(), key=lambda each: each.vendor.lower()):
        families.setdefault(machine.family, []).append(machine)
    lines = [
        "# Where the figures of chips come from",
        "",
        "*For whoever doubts a figure.* Every peak and bandwidth of the catalog with its source. Where public",
        "sources conflict, a floor takes the highest credible one; the others stand beside it, those that mean",
        "something else (sparse, rounded, another card) marked as not used. What is credible is this package's",
        "judgement. Some sources are public tables that repeat data sheets. `roofline chips h100 --sources` shows one.",
        "One exception: of the links of TPUs the scaling book's effective rate is taken; `link=spec` takes Google's.",
        f"Held against public sources on {FIGURES_CHECKED}.",
        "",
        "| family | chips |",
        "|---|---|",
    ]
    found = {}
    for family, machines in families.items():
        page = f"sources/{family}"
        links = (f"[{each.key}]({page}.md#{_anchor(_chip_heading(each))})" for each in machines)
        lines.append(f"| {_family(machines)} | {', '.join(links)} |")
        text = [f"# Sources: {_family(machines)}", "", "*For whoever doubts a figure of these chips.* How a source is"]
        text += ["chosen, and all other chips: [](../sources.md). A wrong one:"]
        text += ["[what to do](../../machines.md#a-figure-that-is-wrong).", ""]
        for machine in machines:
            text += [f"## {_chip_heading(machine)}", "", *_source_table(machine), "", _verdicts(machine), ""]
        found[page] = "\n".join(text) + "\n"
    return {"sources": "\n".join([*lines, "", *_below(found)]) + "\n"} | found


def _chip_heading(machine: Machine) -> str:
    return f"{machine.name} (`{machine.key}`)"


def _family(machines: list[Machine]) -> str:
    """A family in words, such as ``NVIDIA Ampere``, ``AMD CDNA``, ``Processors of AMD, Intel and NVIDIA``."""
    makers = list(dict.fromkeys(each.vendor for each in machines))
    if machines[0].family == "cpu":
        return f"Processors of {', '.join(makers[:-1])} and {makers[-1]}"
    word = machines[0].family.split("-")[-1]
    if word == makers[0].lower():
        return makers[0]
    return f"{makers[0]} {word.upper() if word in ('cdna', 'rdna', 'gpu', 'tpu') else word.capitalize()}"


def _verdicts(machine: Machine) -> str:
    """Count what other sources confirm; name the figures that they give otherwise, and those of one source."""
    from roofline.hardware.figures import verdicts

    said = verdicts(machine)
    of = {
        kind: [path.replace(".", ".<wbr>") for path, verdict in said.items() if verdict == kind]
        for kind in said.values()
    }
    lines = [f"Confirmed by another source or by the clock: {len(of.get('confirmed', ()))} of {len(said)} figures."]
    lines += [f"Other sources differ: {', '.join(of['conflict'])}."] if "conflict" in of else []
    lines += [f"One source alone: {', '.join(of['one source'])}."] if "one source" in of else []
    return " ".join(lines).replace("_", r"\_")


def _source_table(machine: Machine) -> list[str]:
    """A row for each source: the figures that are taken from it, and what it says besides, where any source does."""
    from roofline.hardware.machine import figure_unit
    from roofline.quantity import format_quantity

    held = [(f"{unit.name}.{name}", peak) for unit in machine.units for name, peak in unit.peaks.items()]
    held += [
        (f"{part.name}.bandwidth", part.bandwidth) for part in (*machine.memories, *machine.links) if part.bandwidth
    ]
    sources: dict[str, tuple[list[str], list[str]]] = {}
    for path, figure in held:
        how = "" if figure.basis == "spec" else f" ({figure.basis})"
        said = format_quantity(figure.value, figure_unit(path))
        shown = path.replace(".", ".<wbr>")
        sources.setdefault(figure.source, ([], []))[0].append(f"{shown} {said}{how}")
        for other in machine.alternates:
            if other.of == path:
                said = f"{shown} {format_quantity(other.figure.value, figure_unit(path))}{_not_used(other)}"
                sources.setdefault(other.figure.source, ([], []))[1].append(said)
    rows = [["source", "taken from it", "it also says"], ["---"] * 3]
    for source, (taken, besides) in sources.items():
        rows.append([_PLACE.sub(_linked, _cell(source)), _cell(", ".join(taken)), _cell(", ".join(besides))])
    columns = 3 if any(besides for _, besides in sources.values()) else 2
    return [f"| {' | '.join(row[:columns])} |" for row in rows]


def _linked(found: re.Match[str]) -> str:
    """A part of a source as a narrow column may break it; the address of a page, or of a file on GitHub, as a link."""
    shown = re.sub("[/@:]", r"\g<0><wbr>", found[0]).replace("_", r"\_<wbr>")
    repo, commit, file = found["repo"], found["commit"] or "HEAD", found["file"]
    address = f"https://github.com/{repo}/blob/{commit}/{file}" if repo else found["page"]
    return f"[{shown}]({address})" if address else shown


def _not_used(other: Alternate) -> str:
    """Why a figure is not used, such as ``(not used: rounded)``."""
    why = f": {other.figure.note}" if other.figure.note else ""
    return f" (not used{why})" if other.rejected else ""


def operator_page() -> str:
    """Every operator of PyTorch, JAX and ONNX that has a rule, by the file of rules it stands in."""
    from roofline.programs.jax import registry as jax
    from roofline.programs.onnx import registry as onnx
    from roofline.programs.pytorch import registry as pytorch

    lines = [
        "# Operators with a rule",
        "",
        "*For whoever asks whether a program is covered.* What `roofline trace` counts, by the rules themselves. What",
        "has none is listed in the answer and makes it incomplete: [](../programs.md#what-is-covered).",
        "",
    ]
    for title, registry in (("PyTorch", pytorch), ("JAX", jax), ("ONNX", onnx)):
        families: dict[str, list[str]] = {}
        for name in registry.known_names():
            module = registry.find(name).__module__
            if module.startswith(f"{registry.__package__}.rules"):  # not what a user has added
                families.setdefault(module, []).append(name.removeprefix("aten."))
        lines += [f"## {title}: {sum(map(len, families.values()))}", ""]
        for module, names in families.items():
            about = (import_module(module).__doc__ or "").splitlines()[0]
            lines += [f"**{about}** {len(names)}: {', '.join(map(_operator, sorted(names)))}", ""]
    return "\n".join(lines)


def model_page() -> str:
    """Every shipped model by its names, with its size, what of it works on a token, and where it was read from."""
    from roofline.models.config import load, shipped_names
    from roofline.quantity import format_count

    lines = [
        "# Models by name",
        "",
        "*For whoever looks for a model's name.* `roofline llm`, `train`, `plan`, `sweep` and `model` take each of",
        "these names, in any case. A `config.json`, a folder that holds one or a hub id in the local cache does as",
        "well: [](../models.md).",
        "",
        "| name | parameters | of them active | trained for | also called |",
        "|---|---:|---:|---:|---|",
    ]
    for first, *others in shipped_names():
        model = load(first)
        active = format_count(model.active_parameters) if model.active_parameters < 0.9 * model.parameters else ""
        length = "" if model.context is None else f"{model.context:,}"
        cells = (f"`{first}`", format_count(model.parameters), active, length, ", ".join(map(_operator, others)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _operator(name: str) -> str:
    """An operator as code; one that is wider than a phone as a name that may break."""
    return f"`{name}`" if len(name) <= LONGEST_NAME else _key(name).replace("<code>", '<code class="literal">')


def write() -> None:
    """Write the pages where they changed, so that a build reads only what is new."""
    folder = DOCS / "generated"
    folder.mkdir(exist_ok=True)
    pages = command_pages() | json_pages() | source_pages()
    pages |= {"gallery": gallery_page(), "plan_schema": plan_schema_page(), "operators": operator_page()}
    pages["models"] = model_page()
    pages |= answer_parts.pages()
    for stale in {path.relative_to(folder) for path in folder.rglob("*.md")} - {Path(f"{name}.md") for name in pages}:
        (folder / stale).unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _options_as_code(text: str) -> str:
    """Options in a sentence as code, which does not break behind its hyphens."""
    return re.sub(r"(?<![`\w-])--[a-z][a-z-]*\b(?!`)", r"`\g<0>`", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
