"""Sphinx settings for `make site`; stage.py generates the pages.

The theme is Furo, and the pages are MyST Markdown. Every warning is an error, so a broken link fails the build.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import mpsgraph as _mg  # noqa: E402
import reference as _reference  # noqa: E402
import stage as _stage  # noqa: E402

_names = [name.path for name in _reference.public_names()]
_names += [f"mpsgraph.Graph.{name}" for methods in _reference.families().values() for name, _ in methods]
_stage.stage(_stage.ROOT / "build" / "site" / "source", _reference.pages(), _names)

project = "mpsgraph"
author = "the authors of mpsgraph"
copyright = f"{author}, Apache-2.0"
release = version = _mg.__version__.partition("+")[0]
root_doc = "index"

extensions = ["myst_parser", "sphinx_design", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence", "fieldlist"]
myst_heading_anchors = 4
suppress_warnings = ["ref.python"]  # two modules have a Trainer, so Sphinx cannot resolve an annotation of that name
add_module_names = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 80
python_display_short_literal_types = True
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = f"mpsgraph {release}"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    **_stage.repository(),
    "navigation_with_keys": True,
    "light_css_variables": {"color-brand-primary": "#2f6f4f", "color-brand-content": "#2f6f4f"},
    "dark_css_variables": {"color-brand-primary": "#7fc99b", "color-brand-content": "#7fc99b"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
