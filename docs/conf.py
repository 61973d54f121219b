"""Settings of Sphinx, for `make docs`."""

import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import made_at_build  # noqa: E402 - in this folder

project = "hdsl"
author = copyright = "the hdsl developers"
release = installed_version("hdsl")
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "_templates",
    "results",
]  # reproducing.md includes the results
templates_path = ["_templates"]

# --- references -----------------------------------------------------------------------

nitpicky = True
default_role = "py:obj"
nitpick_ignore_regex = [
    ("py:obj", r"[^.]+"),  # `n_targets` is a parameter, `hdsl.load` a reference
    ("py:obj", r"search\.top_k"),
    ("py:obj", r"(scipy|sklearn)\..+"),  # other sites need the network
]

# --- docstrings -----------------------------------------------------------------------

autodoc_typehints = "none"  # the docstrings give the types, with shapes
autosummary_generate = True
numpydoc_show_class_members = False
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

# --- pages ----------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
smartquotes = False  # x' is not a quotation
highlight_options = {name: {"stripnl": True} for name in ("python", "pycon")}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "made_at_build.in_order",
    "backreferences_dir": "generated/examples",
    "doc_module": ("hdsl",),
    "reference_url": {"hdsl": None},
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,  # no times: they depend on the machine
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "capture_repr": (),  # show what is printed, not values
}

# --- HTML -----------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "hdsl"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_extra_path = ["generated/pages"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
html_sidebars = {name: [] for name in ("index", "start", "changelog")}


def _leave_out(app, what, name, member, skip, options):
    """Skip members that scikit-learn and named tuples add to classes."""
    docstring = getattr(member, "__doc__", None) or ""
    theirs = (getattr(member, "__module__", None) or "").startswith("sklearn.")
    routing = name.startswith("set_") and name.endswith("_request")
    return (
        True if theirs or routing or docstring.startswith("Alias for field") else skip
    )


def _escape(app, what, name, obj, options, lines):
    """Escape |x| and names_, which are text in docstrings and markup in reST."""
    for k, line in enumerate(lines):
        if line == "Examples":  # the last section; its text is literal
            return
        parts = re.split("(`+[^`]+`+)", line)
        parts[::2] = [re.sub(r"\||_(?=[,)])", r"\\\g<0>", part) for part in parts[::2]]
        lines[k] = "".join(parts)


def setup(app):
    made_at_build.make(HERE / "generated")
    app.connect("autodoc-skip-member", _leave_out)
    app.connect("autodoc-process-docstring", _escape, priority=100)  # before numpydoc
