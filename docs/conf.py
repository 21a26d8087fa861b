"""Configuration of the documentation build."""

project = "roofline"
author = "the roofline authors"
copyright = "the roofline authors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build", "examples"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False}
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "roofline"
html_copy_source = False
html_show_sphinx = False
pygments_style = "default"
pygments_dark_style = "github-dark"
