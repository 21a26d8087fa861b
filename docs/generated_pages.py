"""Pages of the docs that follow from the package and the other pages: all commands and options, and the gallery.

``docs/conf.py`` writes them into ``docs/generated/`` before a build; a test reads them for what must stand there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent

#: A picture of a page, and a command that writes a file of the same name.
_PICTURE = re.compile(r"^!\[(?P<says>[^\]]+)\]\(images/(?P<name>[\w-]+\.svg)\)", re.MULTILINE)
_COMMAND = r"^\$ (roofline [^\n]*{name}[^\n]*)$"

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


def write() -> None:
    """Write the pages where they changed, so that a build reads only what is new."""
    folder = DOCS / "generated"
    folder.mkdir(exist_ok=True)
    for name, text in {"commands.md": commands_page(), "gallery.md": gallery_page()}.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
