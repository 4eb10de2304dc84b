"""Formats load tests as self-contained HTML pages."""

from __future__ import annotations

from importlib import resources

import jinja2
from markupsafe import Markup

from dragoman_load_test.confidence import format_change, format_estimate
from dragoman_load_test.reports.comparison import Comparison
from dragoman_load_test.reports.plots import draw_comparison, draw_run
from dragoman_load_test.reports.table import plan_line
from dragoman_load_test.results import Run


def run_page(run: Run) -> str:
    """Returns a run as HTML; all text from files, URLs and servers is escaped."""
    return _page("run.html", run=run, picture=_inline(draw_run(run)), plan_line=plan_line)


def comparison_page(comparison: Comparison) -> str:
    """Returns the comparison of two runs as HTML."""
    picture = _inline(draw_comparison(comparison))
    return _page("comparison.html", comparison=comparison, picture=picture)


def _page(name: str, **values: object) -> str:
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.PackageLoader("dragoman_load_test.reports"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters.update(estimate=format_estimate, change=format_change)
    css = (resources.files("dragoman_load_test.reports") / "templates" / "page.css").read_text(
        "utf-8"
    )
    return environment.get_template(name).render(css=Markup(css), **values)  # noqa: S704  (ours)


def _inline(svg: str) -> Markup:
    """Returns one of our charts without its XML prologue; matplotlib has escaped all text in it."""
    return Markup(svg[svg.index("<svg") :])  # noqa: S704
