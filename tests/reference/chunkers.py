"""Labels of chunk ids belong to one chunker: what is left of them for runs of another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .rows import Row, labelled_spans, labels, spans_of

CHUNK_FIELDS = ("expected_chunk_ids", "grades")


def labels_for(
    run: Row, golden_rows: Sequence[Row], *, archives: Sequence[Row], runs: Sequence[Row]
) -> list[Row]:
    """The golden rows that score a run; `archives` and `runs` are those of its dataset, oldest first."""
    version = chunker_of(run)
    expected = {chunk_id for golden in golden_rows for chunk_id in ids_of(golden)}
    newest = {state["chunker_version"]: lines_by_id(state["lines"]) for state in archives}
    owners = owners_of(expected, newest, runs)
    if owners is None or version is None or version in owners:
        return list(golden_rows)
    own_lines = newest.get(min(owners), {}) if owners else {}
    return [without_ids(golden, own_lines) for golden in golden_rows]


def chunker_of(run: Row) -> str | None:
    version = (run.get("config") or {}).get("chunker_version")
    return None if version is None else str(version)


def ids_of(golden: Row) -> list[str]:
    return [*labels(golden, "expected_chunk_ids"), *labels(golden, "grades")]


def lines_by_id(lines: Sequence[Row]) -> dict[str, Row]:
    return {line["chunk_id"]: line for line in lines}


def owners_of(
    expected: set[str], newest: Mapping[str, Mapping[str, Row]], runs: Sequence[Row]
) -> set[str] | None:
    """The chunkers whose ids these are: empty if inventories disagree about them, None if nothing has them."""
    if not expected:
        return None
    counts = {version: len(expected & lines.keys()) for version, lines in newest.items()}
    most = max(counts.values(), default=0)
    claims = {version for version, n in counts.items() if n and 2 * n >= len(expected) and n >= 0.9 * most}
    if claims:
        for chunk_id in expected:
            places = {
                place_of(newest[version][chunk_id]) for version in claims if chunk_id in newest[version]
            }
            if len(places) > 1:
                return set()
        return claims
    known = [parts for parts in runs if chunker_of(parts["run"]) is not None]
    if len({chunker_of(parts["run"]) for parts in known}) > 1:
        for parts in known:
            if any(chunk_id in expected for chunk_id in retrieved(parts["results"])):
                return {str(chunker_of(parts["run"]))}
    return None


def place_of(line: Row) -> tuple[object, ...]:
    spans = tuple(sorted(spans_of(line)))
    return (line["doc_id"], spans, None if spans else line.get("text"))


def retrieved(results: Sequence[Row]) -> set[str]:
    return {
        hit if isinstance(hit, str) else hit["chunk_id"]
        for result in results
        for hit in result.get("hits_top_k") or []
    }


def without_ids(golden: Row, lines: Mapping[str, Row]) -> Row:
    """The row without ids of chunks, and with the characters of its expected chunks unless it has gold spans."""
    left = {field: value for field, value in golden.items() if field not in CHUNK_FIELDS}
    left["is_variant"] = True
    if golden.get("expected_chunk_ids") == []:
        left["expected_chunk_ids"] = []
    if labels(golden, "ground_truth_spans"):
        return left
    graded = [chunk_id for chunk_id, grade in (golden.get("grades") or {}).items() if grade >= 1]
    spans = {}
    for chunk_id in labels(golden, "expected_chunk_ids") or graded:
        frozen = (golden.get("expected_chunk_spans") or {}).get(chunk_id)
        spans[chunk_id] = labelled_spans(frozen) if frozen else spans_of(lines.get(chunk_id, {"doc_id": ""}))
    left["chunk_spans"] = {chunk_id: own for chunk_id, own in spans.items() if own}
    return left
