"""The documentation site: `make docs`."""

from exhume.version import __version__

project = "exhume"
author = "the exhume authors"
copyright = "2026, the exhume authors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"exhume {__version__}"
html_static_path = ["_static"]
html_css_files = ["wide-tables.css"]
html_theme_options = {
    "source_repository": "https://github.com/exhume/exhume/",
    "source_branch": "main",
    "source_directory": "docs/",
}
html_show_sphinx = False

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
