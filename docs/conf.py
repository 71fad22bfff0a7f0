"""Settings of the documentation site, which `make docs` builds with Sphinx. See https://www.sphinx-doc.org."""

from __future__ import annotations

from pathlib import Path

from kilauea import __version__

REPOSITORY = Path(__file__).resolve().parents[1]

project = "Kilauea"
author = "The Kilauea authors"
project_copyright = author
version = release = __version__

extensions = ["myst_parser"]
exclude_patterns = ["Thumbs.db", ".DS_Store"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
"""Every heading can be linked to as GitHub links to it; a link to one that does not exist is a warning."""

html_theme = "furo"
html_title = f"Kilauea {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"
