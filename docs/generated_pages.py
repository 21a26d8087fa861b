"""Pages of the docs that follow from the package and the other pages: commands, the gallery, a plan's schema, sources.

``docs/conf.py`` writes them into ``docs/generated/`` before a build; a test reads them for what must stand there.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline.hardware.machine import Alternate

DOCS = Path(__file__).resolve().parent

#: The keys of every answer's JSON: parts and schemas.
JSON_KEYS: dict[str, Any] = tomllib.loads((DOCS / "json_keys.toml").read_text(encoding="utf-8"))

#: A picture of a page, and a command that writes a file of the same name.
_PICTURE = re.compile(r"^!\[(?P<says>[^\]]+)\]\(images/(?P<name>[\w-]+\.svg)\)", re.MULTILINE)
_COMMAND = r"^\$ (roofline [^\n]*{name}[^\n]*)$"

#: The day on which every chip's peaks and bandwidths were last held against public sources.
FIGURES_CHECKED = "2026-11-23"

#: Pages whose pictures the gallery shows, in its order.
GALLERY = ("tour", "seeds", "serving", "plans", "programs", "measuring", "many_chips")


def commands_page() -> str:
    """Every command with all its options by group, examples first."""
    from roofline.cli import reference

    lines = [
        "# All commands and options",
        "",
        "*For whoever knows the command and looks for the option.* The same stands in a terminal under",
        "`roofline COMMAND --help-all`. Which command answers a question says [](../questions.md).",
        "",
    ]
    for command in reference():
        lines += [f"## {command.name}", "", f"{command.text}", "", "```sh", command.usage, *command.examples, "```", ""]
        for heading, options in command.groups.items():
            lines += [f"**{heading}**", ""]
            lines += ["| option | what it says |", "|---|---|"]
            for option in options:
                words = ", ".join(option.words) + (f" {option.form}" if option.form else "")
                default = f" Default: `{option.default}`." if option.default else ""
                older = f" Also {', '.join(f'`{word}`' for word in option.older)}." if option.older else ""
                lines.append(f"| `{_cell(words)}` | {_cell(option.says)}{default}{older} |")
            lines.append("")
    return "\n".join(lines) + "\n"


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
            *([f"<small><code>{_html(command)}</code></small>"] if command else []),
            ":::",
            "",
        ]
    return "\n".join([*lines, "::::", ""])


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


def json_page() -> str:
    """The keys of what ``--json`` prints, schema by schema, then the parts that several have."""
    schemas, parts = JSON_KEYS["schemas"], JSON_KEYS["parts"]
    lines = [
        "# The keys of the JSON",
        "",
        "*For whoever reads an answer by a program.* `--json` prints what `to_dict()` gives: plain SI units, and null",
        "where something is unknown, open or was not asked. `schema` is the first key; within a version keys are only",
        "added. Behind a name, `[]` is a list of objects and `{}` an object whose names are data, such as resources or",
        "sizes. A figure is a list where a size was one. What `plan` prints is [a JSON Schema](plan_schema.md).",
        "",
        "| command | schema |",
        "|---|---|",
        *(f"| {schema['says']} | [{name}](#{_anchor(name)}) |" for name, schema in schemas.items()),
        "",
    ]
    for name, part in schemas.items():
        lines += [f"## {name}", ""]
        if "@" in part:
            lines += [f"{part['says']}: the keys of [{part['@']}](#{part['@']}).", ""]
        else:
            lines += [f"{part['says']}.", "", *_key_table(part)]
    lines += ["## Parts", "", "Objects that stand in several answers.", ""]
    for name, part in parts.items():
        lines += [f"### {name}", "", *_key_table(part)]
    return "\n".join(lines) + "\n"


def _key_table(part: dict[str, str]) -> Iterator[str]:
    yield from ("| key | unit | what it is |", "|---|---|---|")
    for key, said in part.items():
        if key != "says":
            unit, _, meaning = (word.strip() for word in said.partition("|"))
            inner = unit[1:] if unit[:1] == "@" else ""
            linked = "see its schema" if inner == "schema" else f"[{inner}](#{inner})" if inner else unit
            yield f"| {'any name' if key == '*' else _key(key)} | {linked} | {_cell(meaning)} |"
    yield ""


def _key(name: str) -> str:
    """A key as code that a narrow column may break behind a dot or an underscore."""
    return "<code>" + re.sub("([._])", r"\1<wbr>", name) + "</code>"


def _anchor(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^a-z0-9_-]", "", heading.lower())


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


def sources_page() -> str:
    """Peaks and bandwidths of every chip with the source of each, and what other sources say of the same."""
    from roofline.hardware import chips
    from roofline.hardware.machine import figure_unit
    from roofline.quantity import format_quantity

    lines = [
        "# Where the figures of chips come from",
        "",
        "*For whoever doubts a figure.* Every peak and bandwidth of the catalog with its source. Where public",
        "sources conflict, a floor takes the highest credible one; the others stand beside it, those that mean",
        "something else (sparse, rounded, another card) marked as not used. `roofline chips h100 --sources` shows one.",
        "One exception: of the links of TPUs the scaling book's effective rate is taken; `link=spec` takes Google's.",
        f"Held against public sources on {FIGURES_CHECKED}.",
        "",
    ]
    for machine in chips():
        held = [(f"{unit.name}.{name}", peak) for unit in machine.units for name, peak in unit.peaks.items()]
        parts = (*machine.memories, *machine.links)
        held += [(f"{part.name}.bandwidth", part.bandwidth) for part in parts if part.bandwidth]
        lines += [
            f"## {machine.name} ({machine.key})",
            "",
            "| figure | taken | source | other sources |",
            "|---|---|---|---|",
        ]
        for path, figure in held:
            unit = figure_unit(path)
            others = [other for other in machine.alternates if other.of == path]
            said = (f"{format_quantity(each.figure.value, unit)} {each.figure.source}" for each in others)
            marks = (_not_used(each) for each in others)
            beside = "; ".join(map(str.__add__, said, marks))
            taken = f"{format_quantity(figure.value, unit)}{'' if figure.basis == 'spec' else f' ({figure.basis})'}"
            cells = (_cell(text).replace("/", "/<wbr>").replace("_", "_<wbr>") for text in (figure.source, beside))
            lines.append(f"| {path} | {taken} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines) + "\n"


def _not_used(other: Alternate) -> str:
    """Why a figure is not used, such as ``(not used: rounded)``."""
    why = f": {other.figure.note}" if other.figure.note else ""
    return f" (not used{why})" if other.rejected else ""


def write() -> None:
    """Write the pages where they changed, so that a build reads only what is new."""
    folder = DOCS / "generated"
    folder.mkdir(exist_ok=True)
    pages = {"commands.md": commands_page(), "gallery.md": gallery_page(), "plan_schema.md": plan_schema_page()}
    pages |= {"json.md": json_page(), "sources.md": sources_page()}
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
