"""The published pages as an asset: written where their numbers are newer, with links to them."""

from collections.abc import Sequence

import dagster as dg

from eval_pipeline.defs.assets import key_of
from eval_pipeline.defs.comparisons import COMPARISONS
from eval_pipeline.defs.listening import Listener
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry
from eval_pipeline.pipeline.pages import Page, Published, publish_pages, wanted_pages
from eval_pipeline.pipeline.runs import digest

PAGES = dg.AssetKey(["reports", "pages"])
LINKED = 50
DESCRIPTION = """Self-contained HTML pages in the folder of reports: of new runs, of new comparisons, of the suites.

A page is written when it is not there, or older than the numbers on it; others are left alone."""


def report_assets(registry: Registry, listener: Listener) -> list[dg.AssetsDefinition]:
    """One asset for the whole folder."""
    aggregates = [key_of(one.name) for one in registry if ALL_FORMULAS in one.reads]

    @dg.asset(
        key=PAGES,
        group_name="reports",
        kinds={"html"},
        deps=[COMPARISONS, *aggregates],
        description=DESCRIPTION,
    )
    def publish(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
        with listener.hearing_errors():
            with listener.watching() as progress:
                published = publish_pages(store.settings, registry, tell=listener.tell, progress=progress)
            if published.errors:
                raise published.errors[0]
            with store.reading() as con:
                pages = wanted_pages(con, store.settings, registry)
            return _result(store, published, pages)

    return [publish]


def _result(store: StoreResource, published: Published, pages: Sequence[Page]) -> dg.MaterializeResult[None]:
    metadata: dict[str, dg.MetadataValue | int] = {
        "pages written": len(published.pages),
        "folder": dg.MetadataValue.path(str(store.settings.reports)),
    }
    overview = next((page for page in pages if not page.runs and page.suite is None), None)
    if overview:
        metadata["all suites"] = dg.MetadataValue.url(overview.path.as_uri())
    if published.pages:
        metadata["written now"] = dg.MetadataValue.md(_links(published.pages))
    version = digest([f"{page.name} {page.made_at.isoformat()}" for page in pages])
    return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)


def _links(pages: Sequence[Page]) -> str:
    """The newest first."""
    lines = [f"- [{_escaped(page.name)}]({page.path.as_uri()})" for page in list(pages)[::-1][:LINKED]]
    rest = len(pages) - len(lines)
    return "\n".join([*lines, *([f"- and {rest:,} more"] if rest else [])])


def _escaped(name: str) -> str:
    return "".join("\\" + letter if letter in "\\[]_*`<" else letter for letter in name)
