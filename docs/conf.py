"""Configuration of the documentation build."""

import gc
import logging
import re
import shlex
import shutil
import sys
from contextlib import chdir
from functools import cache
from pathlib import Path

from docutils.nodes import Element, Node, Text
from sphinx.addnodes import desc_parameterlist, pending_xref
from sphinx.pycode.parser import Parser
from sphinx.transforms.post_transforms import ReferencesResolver, SphinxPostTransform

import roofline
from roofline.cli import main

project = "roofline"
author = "the roofline authors"
copyright = "the roofline authors"

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from console_examples import in_dark  # noqa: E402  # found by the line above

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "console_examples", "math_images"]
exclude_patterns = ["_build", "examples"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_math_renderer = "drawn"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_type_comments = False  # types are annotations: the source is not read for others
autodoc_default_options = {"members": True, "undoc-members": False, "exclude-members": "KINDS, INSTEAD"}
toc_object_entries_show_parents = "hide"  # the contents at the side have little room
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90

# What is copied of an example: its commands, without prompts and output.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_copy_empty_lines = False
copybutton_line_continuation_character = "\\"

smartquotes = False

# the trees of all pages stay to the end: looking for garbage among them takes a part of the build
gc.freeze()
gc.set_threshold(200_000, 20, 50)

# a build that only checks the pages has no navigation, which furo makes anew for each
html_theme = "basic" if tags.has("check") else "furo"  # noqa: F821
html_title = "roofline"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["pages.css"]
html_js_files = ["frames.js"]
html_extra_path = ["_build/made"]
html_copy_source = False
html_domain_indices = False  # the reference lists its modules itself
html_show_sphinx = False
pygments_style = "default"
pygments_dark_style = "github-dark"

_HEADING = re.compile(r"(?P<indent> *)(Parameters|Attributes|Options)$")
_NAMES = re.compile(r"(?P<indent> *)    (?P<names>``[^`]+``(?:, ``[^`]+``)*) +(?P<text>\S.*)")
_ADDRESS = re.compile(r"\btcp://[\w.:]*\w")  # no page of the web

# The report that a reader can try, made afresh with the documentation that readers get.
_made = Path(__file__).parent / "_build" / "made"
_made.mkdir(parents=True, exist_ok=True)
if not tags.has("check"):  # noqa: F821
    roofline.llm("llama-3-8b", on="h100", batch=16, prompt=1024, context=8192).save(_made / "try-it.html")

# The pictures in the colours of the dark theme, and those of a phone's width in both.
_images = Path(__file__).parent / "images"
(_made / "dark" / "phone").mkdir(parents=True, exist_ok=True)
for _picture in _images.rglob("*.svg"):
    _in_dark = in_dark(_picture.read_text(encoding="utf-8"))
    (_made / "dark" / _picture.relative_to(_images)).write_text(_in_dark, encoding="utf-8")
shutil.copytree(_images / "phone", _made / "phone", dirs_exist_ok=True)

# The reports of the course: what its pages ask with -o.
_REPORT = re.compile(r"^\$ roofline (.+ -o \S+\.html)$", re.MULTILINE)
(_made / "course").mkdir(exist_ok=True)
with chdir(_made / "course"):
    # a build that only checks the pages leaves them to the tests, which run the same commands
    for _page in () if tags.has("check") else sorted((Path(__file__).parent / "course").glob("*.md")):  # noqa: F821
        for _asked in _REPORT.findall(_page.read_text(encoding="utf-8")):
            main(shlex.split(_asked))


def as_lists(app, what, name, obj, options, lines):
    """Turn the two columns under Parameters and Attributes, which read well as text, into lists."""
    fresh, indent = [], None
    for line in lines:
        heading = _HEADING.match(line)
        if heading:
            indent = heading["indent"]
            fresh += [f"{indent}**{line.strip()}**", ""]
            continue
        if indent is not None and line.strip() and not line.startswith(indent + " "):
            indent = None
        row = _NAMES.match(line) if indent is not None else None
        if row and row["indent"] == indent:
            text = _ADDRESS.sub(r"``\g<0>``", row["text"])
            fresh.append(f"{indent}- {row['names']}: {text}")
        elif indent is not None and line.strip():
            fresh.append(f"{indent}  {line.strip()}")
        else:
            fresh.append(line)
    lines[:] = fresh


def without_names_alone(app, what, name, obj, skip, options):
    """Leave out fields of which Python itself says no more than their number."""
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else skip


def with_readable_defaults(app, what, name, obj, options, signature, returns):
    """Write `...` for a default that has no form in Python, such as a function: signatures with one are not parsed.

    Fields that a class keeps to itself are left out.
    """
    if not signature:
        return None
    return re.sub(r", _\w+: [^=]+ = \.\.\.", "", re.sub(r"<[^<>]+>", "...", signature)), returns


def last_name(node):
    """The last part of the name that a reference to Python leads to."""
    return node["reftarget"].removesuffix("()").rpartition(".")[2]


@cache
def under_last_names(python):
    """The whole names of all that the pages document, by their last parts."""
    found = {}
    for full in python.objects:
        found.setdefault(full.rpartition(".")[2], []).append(full)
    return found


class OthersNames(SphinxPostTransform):
    """Look for no name like one of Python's own, such as ``int``, among all that the pages document."""

    default_priority = ReferencesResolver.default_priority - 1

    def run(self, **_):
        """Ask for the exact name alone where no documented one ends with it."""
        for node in self.document.findall(pending_xref):
            if node.get("refdomain") == "py" and last_name(node) not in under_last_names(self.env.domains["py"]):
                node.attributes.pop("refspecific", None)


class ShortSignatures(SphinxPostTransform):
    """Leave a signature on one line that has room there with the last parts of its names."""

    default_priority = ReferencesResolver.default_priority + 1

    def run(self, **_):
        """Measure what is shown: Sphinx measures the whole names."""
        for node in self.document.findall(desc_parameterlist):
            if len(node.parent.astext()) <= self.config.python_maximum_signature_line_length:
                node["multi_line_parameter_list"] = False


def under_its_other_name(app, env, node, content):
    """Lead a name to its page where it is documented under another module than it was written with."""
    if node.get("refdomain") != "py":
        return None
    python = env.domains["py"]
    kinds = python.objtypes_for_role(node["reftype"]) or ()
    alike = under_last_names(python).get(last_name(node), ())
    found = [full for full in alike if python.objects[full].objtype in kinds]
    if len(found) != 1:
        return None
    return python.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], found[0], node, content)


def with_roles(app, pagename, templatename, context, doctree):
    """Say what a reader of pages asks for: the level of the contents' headings, that parameters explain no word."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')
    body = context.get("body", "")
    context["body"] = body.replace('<dl>\n<dd><em class="sig-param', '<dl role="none">\n<dd><em class="sig-param')


#: Steps of a build for translations, LaTeX, C, C++ and pictures of the web: each looks through all pages. A check has
#: nothing for them; the pages that readers get take the captions of the contents from one of them.
_IDLE = (
    "sphinx.transforms.i18n", "sphinx.builders.latex.transforms", "sphinx.domains.c", "sphinx.domains.cpp",
    "sphinx.transforms.post_transforms.images",
)  # fmt: skip


#: The kinds of nodes that there are so far: a third of all searches through pages are for others.
_MADE = {*Text.__mro__}


def noting_kinds(make):
    """A node's own ``__init__`` or ``__setstate__``, which notes that there are nodes of its kind."""

    def noted(self, *given, **named):
        if type(self) not in _MADE:
            _MADE.update(type(self).__mro__)
        make(self, *given, **named)

    return noted


def all_below(node, kind):
    """The nodes of a kind, from this one on in the order of the page: docutils hands each up level by level."""
    left = [node] if kind in _MADE else []
    while left:
        node = left.pop()
        if isinstance(node, kind):
            yield node
        if below := node.children:
            left += below[::-1]


def for_a_check(app):
    """Take no idle step, and make no index and no record for debugging, in a build that only checks the pages."""
    if app.tags.has("check"):
        Parser.parse_definition = lambda parser: None
        for steps in (app.registry.transforms, app.registry.post_transforms):
            steps[:] = [step for step in steps if step.__module__ not in _IDLE]
        app.builder.search = False
        logging.getLogger("sphinx").setLevel(logging.INFO)


def setup(app):
    """Write the generated pages, and register the hook."""
    import generated_pages

    generated_pages.write()
    Element.__init__ = noting_kinds(Element.__init__)
    Element.__setstate__ = noting_kinds(lambda self, state: self.__dict__.update(state))
    Node._fast_findall = all_below
    app.connect("autodoc-process-docstring", as_lists)
    app.connect("builder-inited", for_a_check)
    app.add_post_transform(OthersNames)
    app.add_post_transform(ShortSignatures)
    app.connect("missing-reference", under_its_other_name)
    app.connect("autodoc-skip-member", without_names_alone)
    app.connect("autodoc-process-signature", with_readable_defaults)
    app.connect("html-page-context", with_roles, priority=900)
