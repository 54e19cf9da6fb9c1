from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import msgspec
import pytest

from docs.build.commands import all_pages
from docs.build.pages import shipped_registry
from eval_pipeline import records
from eval_pipeline.cli.kb import PROGRAMS
from eval_pipeline.comparing.verdicts import ComparisonOptions
from eval_pipeline.formulas.header import FIELDS
from eval_pipeline.settings import project_folder

ROOT = Path(__file__).parents[2]
DECISIONS = (ROOT / "docs/decisions.md").read_text("utf-8")
BUNDLE = (ROOT / "docs/bundle.md").read_text("utf-8")
# Readings that are arguments of functions and no parameters of a definition.
ARGUMENTS = {"inverted_spans", *(field.name for field in dataclasses.fields(ComparisonOptions))}
RENEW = "renew it with `make docs`"
RECORDS = [
    kind
    for kind in vars(records).values()
    if isinstance(kind, type) and issubclass(kind, records.Record) and kind is not records.Record
]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return all_pages(PROGRAMS)


def anchors(text: str) -> list[str]:
    return re.findall(r'<a id="([^"]+)"></a>', text)


def documents() -> list[Path]:
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "sql/README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]


# ------------------------------------------------------------------ generated pages


@pytest.mark.parametrize(
    "place",
    [
        "docs/bundle.schema.json",
        "docs/images/statistics-coverage.svg",
        "docs/images/statistics-detectable.svg",
        "docs/images/statistics-gate.svg",
        "docs/images/statistics-intervals.svg",
        "docs/reference/commands.md",
        "docs/reference/documents.md",
        "docs/reference/documents.schema.json",
        "docs/reference/files-going-out.md",
        "docs/reference/metrics.md",
        "docs/reference/tables.md",
        "docs/reference/errors.md",
        "docs/requirements.md",
    ],
)
def test_a_generated_page_says_what_the_product_says(pages, place):
    assert (ROOT / place).is_file(), f"{place} is missing: {RENEW}"
    assert (ROOT / place).read_text("utf-8") == pages[place], f"{place} is out of date: {RENEW}"


def test_no_generated_page_names_a_folder_of_this_machine(pages):
    folders = {str(ROOT), str(Path.home()), str(project_folder())}
    assert [place for place, text in pages.items() if any(folder in text for folder in folders)] == []


def test_every_metric_key_is_in_the_catalogue(pages):
    keys = list(shipped_registry().keys())
    missing = [key for key in keys if f"| `{key}` |" not in pages["docs/reference/metrics.md"]]
    assert missing == []


def test_every_public_view_has_a_section(pages):
    views = {path.stem for path in (ROOT / "sql/views").glob("*.sql")} | {"per_query_metrics"}
    found = set(re.findall(r"^### (\w+)$", pages["docs/reference/tables.md"], re.MULTILINE))
    assert views <= found


# ------------------------------------------------------------------ decisions


def test_every_decision_that_a_definition_cites_is_explained():
    registry = shipped_registry()
    cited = {one.header.why for one in (*registry, *registry.helpers.values()) if one.header.why}
    assert cited
    known = {f"docs/decisions.md#{anchor}" for anchor in anchors(DECISIONS)}
    assert sorted(cited - known) == []


def test_every_anchor_of_the_decisions_is_unique_and_stands_before_its_id():
    found = anchors(DECISIONS)
    assert len(found) == len(set(found))
    for anchor, heading in re.findall(r'<a id="(ax?\d*-\d+)"></a>\n#### (\S+)', DECISIONS):
        assert heading.lower().replace(".", "-") == anchor


def test_no_decision_is_left_out():
    ranges = {"a0": 9, "a1": 10, "a2": 25, "a3": 27, "ax": 10, "s3": 23, "x": 5}
    wanted = {f"{system}-{number}" for system, last in ranges.items() for number in range(1, last + 1)}
    wanted |= (
        {f"s0-{n}" for n in range(1, 12)} | {f"s1-{n}" for n in range(19)} | {f"s2-{n}" for n in range(44)}
    )
    assert sorted(wanted - set(anchors(DECISIONS))) == []


def test_every_parameter_with_choices_is_explained_with_all_of_them():
    missing = []
    for one in shipped_registry():
        for name, options in one.header.choices.items():
            described = re.search(rf"`{name}`: ([^.;]+)", DECISIONS)
            words = re.findall(r"\w+", described[1]) if described else []
            texts = [str(option).lower() if isinstance(option, bool) else str(option) for option in options]
            missing += [f"{name}={text}" for text in texts if not set(text.split()) <= set(words)]
    assert missing == []


# ------------------------------------------------------------------ definitions


def test_the_page_on_definitions_lists_exactly_the_fields_of_a_header():
    text = (ROOT / "sql/README.md").read_text("utf-8")
    table = text.partition("| field | what it says |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(FIELDS)


def test_every_parameter_that_the_decisions_offer_exists():
    offered = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"Another reading\.\*\* ([^\n]*)", DECISIONS))))
    known = {name for one in shipped_registry() for name in (*one.header.parameters, one.short_name)}
    assert sorted(offered - known - ARGUMENTS) == []


# ------------------------------------------------------------------ bundle


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_the_bundle_page_lists_exactly_the_fields_of_a_record(kind):
    section = re.search(rf"^### {kind.__name__}\n(.*?)(?=^##|\Z)", BUNDLE, re.MULTILINE | re.DOTALL)
    assert section, f"docs/bundle.md has no section {kind.__name__}"
    listed = re.findall(r"^\| `(\w+)`( \*)? \|", section[1], re.MULTILINE)
    expected = [(field.name, " *" if field.required else "") for field in msgspec.structs.fields(kind)]
    assert listed == expected


# ------------------------------------------------------------------ links


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_link_leads_nowhere(path):
    assert path.is_file()
    text = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http:", "https:")):
            continue
        place, _, anchor = target.partition("#")
        file = (path.parent / place).resolve() if place else path
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in all_anchors(file)):
            broken.append(target)
    assert broken == []


def all_anchors(path: Path) -> set[str]:
    text = path.read_text("utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(anchors(text))
