"""What the fields of somebody's own rows probably mean, and which of the guesses to check."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.adapters._names import QUERY_IDS, QUESTIONS, plain_name
from eval_pipeline.adapters._values import NO_DOCUMENT
from eval_pipeline.adapters.mapping import TABLES
from eval_pipeline.adapters.tables import EACH, TREC_COLUMNS, WHOLE, FileForm, _opened, find_value, places_in

Row = dict[str, Any]
Names = Sequence[str]

LISTS = (
    *(
        "hitstopk",
        "hits",
        "retrieved",
        "retrieveddocuments",
        "retrieveddocs",
        "retrievedchunks",
        "documents",
        "docs",
    ),
    *(
        "chunks",
        "passages",
        "results",
        "sources",
        "contexts",
        "context",
        "retrieval",
        "retrievaldocuments",
        "nodes",
    ),
    *("retrievedcontextids", "retrievedids", "retrieveddocids", "docids", "chunkids", "retrievedcontexts"),
    *("ids", "topk", "value"),
)
ID_LISTS = (
    *("retrievedcontextids", "retrievedids", "retrievedchunkids", "retrieveddocids", "contextids"),
    *("documentids", "docids", "chunkids", "ids"),
)
TEXT_LISTS = ("retrievedcontexts", "retrievedcontents", "retrievedtexts", "contexts", "documents", "texts")
SCORE_LISTS = ("retrievescores", "retrievedscores", "scores")
# Behind a place: the only list in its list.
INNER = ".0"
HIT_FIELDS: dict[str, Names] = {
    "chunk_id": (
        "chunkid",
        "passageid",
        "nodeid",
        "docno",
        "id",
        "documentid",
        "docid",
        "doc",
        "chunk",
        "document",
        "passage",
        "key",
        "corpusid",
    ),
    "doc_id": (
        "docid",
        "documentid",
        "source",
        "sourceid",
        "file",
        "filename",
        "parentid",
        "docno",
        "articleid",
    ),
    "rank": ("rank", "position", "pos"),
    "score": ("score", "sim", "similarity", "relevance", "relevancescore", "documentscore", "value"),
    "text": ("text", "content", "contents", "pagecontent", "passage", "documentcontent", "chunk", "body"),
    "rel_path": ("relpath", "path", "filepath"),
    "heading_path": ("headingpath", "heading", "headings", "section"),
}
FIELDS: dict[tuple[str, str], Names] = {
    ("answer", "text"): (
        *(
            "answer",
            "response",
            "output",
            "prediction",
            "generated",
            "generatedanswer",
            "generatedtext",
            "completion",
        ),
        *("answertext", "responseoutput", "outputcompletion", "modelanswer", "outputs", "generatedtexts"),
    ),
    ("answer", "grounded"): ("grounded", "answergrounded", "isgrounded"),
    ("answer", "abstained"): ("abstained", "refused", "isrefusal", "answerabstained"),
    ("answer", "citations"): ("citations", "cited", "citedids", "citedchunkids", "answercitations"),
    ("result", "error"): ("error", "errormessage", "exception"),
    ("result", "timed_out"): ("timedout", "timeout", "istimeout"),
    ("latency_ms", "total"): (
        *(
            "latencyms",
            "latencymstotal",
            "latency",
            "latencys",
            "durationms",
            "duration",
            "elapsedms",
            "elapsed",
        ),
        *("totaltime", "responsetime", "responsetimems", "latencyseconds"),
    ),
    ("judge", "groundedness"): (
        "groundedness",
        "faithfulness",
        "judgegroundedness",
        "judgegroundednessscore",
    ),
    ("judge", "correctness"): (
        "correctness",
        "answercorrectness",
        "judgecorrectness",
        "judgecorrectnessscore",
    ),
}
LONG_TEXT = 60
_COMMAS = re.compile(r"\s*-?\d{1,3}([.,' ]\d{3})*,\d+(\.\d+)?\s*\Z")


@dataclass
class Guess:
    """A mapping in the making: the tables of mapping.toml, and remarks about what is not sure."""

    form: FileForm
    rows: str = "query"
    tables: dict[str, dict[str, Any]] = field(default_factory=lambda: {name: {} for name in TABLES})
    unsure: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    def used(self) -> set[str]:
        """Every place in a row that something is taken from."""
        found: set[str] = set()
        for fields in self.tables.values():
            for value in fields.values():
                places = [value] if isinstance(value, str) else []
                if isinstance(value, dict):
                    places = [value.get("place", ""), *value.get("hash_of", [])]
                found.update(place for place in places if place)
        return found


def guess_mapping(rows: Sequence[Row], form: FileForm) -> Guess:
    """A mapping for rows like these."""
    guess = Guess(form)
    values = _values(rows)
    if form.columns == TREC_COLUMNS:
        _guess_trec(guess)
        return guess
    _guess_query(guess, values)
    _guess_hits(guess, rows, values)
    for (table, name), names in FIELDS.items():
        place = _named(values, names, taken=guess.used())
        if place is not None:
            guess.tables[table][name] = place
    _guess_units(guess, values)
    if not guess.tables["hits"] and not guess.tables["answer"]:
        guess.unsure.append(
            "Neither hits nor an answer were recognised: name their places under [hits] or [answer]."
        )
    used = guess.used()
    guess.unused = [
        place
        for place in values
        if not any(
            place == one or place.startswith(f"{one}.") or place.rstrip("0123456789") + EACH == one
            for one in used
        )
    ]
    return guess


def _values(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """Every place of the rows with the values that stand there."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        for place, value in places_in(row):
            found.setdefault(place, []).append(value)
    return found


def _named(places: Iterable[str], names: Names, *, taken: Iterable[str] = ()) -> str | None:
    """The first place with one of these names; a whole place counts before the last part of one."""
    free = [place for place in places if place not in set(taken)]
    for is_whole in (True, False):
        by_name = {
            plain_name(place if is_whole else place.rpartition(".")[2]): place for place in reversed(free)
        }
        for name in names:
            if name in by_name:
                return by_name[name]
    return None


def _guess_trec(guess: Guess) -> None:
    guess.rows = "hit"
    guess.tables["result"]["query_id"] = "qid"
    guess.tables["hits"] |= {"chunk_id": "docno", "rank": "rank", "score": "sim", "order": "score"}
    guess.unsure.append(
        'Hits are ordered by score (order = "score"), as trec_eval does; order = "rank" takes the ranks as given.'
    )


def _guess_query(guess: Guess, values: dict[str, list[Any]]) -> None:
    scalars = [place for place, found in values.items() if not any(isinstance(one, list) for one in found)]
    place = _named(scalars, QUERY_IDS)
    if place is None:
        question = _named(values, QUESTIONS)
        if question is None:
            question = next(iter(values), "id")
            guess.unsure.append(f"No query id was recognised; {question!r} was taken: name the right place.")
            guess.tables["result"]["query_id"] = question
            return
        guess.tables["result"]["query_id"] = {"hash_of": [question]}
        guess.unsure.append(
            f"There is no query id: a hash of {question!r} stands for it, and the golden set has to "
            f"use the same ids."
        )
        return
    guess.tables["result"]["query_id"] = place
    if plain_name(place) not in QUERY_IDS[:2]:
        guess.unsure.append(f"query_id is taken from {place!r}: the golden set has to use the same ids.")


def _guess_hits(guess: Guess, rows: Sequence[Row], values: dict[str, list[Any]]) -> None:
    query = guess.tables["result"].get("query_id")
    ids = values.get(query, []) if isinstance(query, str) else []
    free = {place: found for place, found in values.items() if place != query}
    scalars = {place: found for place, found in free.items() if not isinstance(_opened(found[0]), list)}
    one_id = _named(scalars, [name for name in HIT_FIELDS["chunk_id"] if name != "id"])
    place, items = _list_of_hits(rows, free)
    has_order = _named(scalars, (*HIT_FIELDS["rank"], *HIT_FIELDS["score"])) is not None
    # Each question may have a single hit: then the ids of the questions do not repeat.
    if one_id is not None and (len(set(map(str, ids))) < len(ids) or (place is None and has_order)):
        guess.rows = "hit"
        _guess_hit_fields(guess, scalars, n_hits=len(rows))
        _guess_order(guess, scalars)
        _note_missing_document(guess)
        return
    if place is None and _guess_numbered(guess, free):
        return
    if place is None:
        return
    if all(isinstance(item, list) for item in items) and _is_list_in_list(rows, place, items):
        guess.unsure.append(
            f"{place!r} has one list in the list of each query: its items are taken for the hits."
        )
        place, items = place + INNER, [one for item in items for one in item]
    hits = guess.tables["hits"]
    hits["list"] = place
    if all(isinstance(item, dict) for item in items):
        found = _values(items)
        _guess_hit_fields(guess, found, n_hits=len(items))
        _guess_order(guess, found)
    elif all(isinstance(item, list) for item in items):
        _guess_nested_hits(guess, place, items)
    elif _is_side_by_side(guess, rows, place, free):
        return
    else:
        _guess_bare_hits(guess, items, _separator(place, free.get(place, ())))
    _note_missing_document(guess)


def _guess_numbered(guess: Guess, values: dict[str, list[Any]]) -> bool:
    """A column per rank: doc_1, doc_2 and so on, perhaps with score_1, score_2 beside them."""
    stems: dict[str, int] = {}
    for place in values:
        stem = place.rstrip("0123456789")
        if stem != place:
            stems[stem] = stems.get(stem, 0) + 1
    several = {plain_name(stem): stem for stem, times in stems.items() if times > 1}
    hits = guess.tables["hits"]
    for name in ("chunk_id", "doc_id", "score", "text"):
        named = next((several[one] for one in HIT_FIELDS[name] if one in several), None)
        if named is not None and f"{named}{EACH}" not in hits.values():
            hits[name] = f"{named}{EACH}"
    if "chunk_id" not in hits:
        hits.clear()
        return False
    _note_missing_document(guess)
    guess.unsure.append(f"A column per rank: hits are taken from {hits['chunk_id']!r}, by the number.")
    return True


def _list_of_hits(rows: Sequence[Row], values: dict[str, list[Any]]) -> tuple[str | None, list[Any]]:
    lists = {
        place: found
        for place, found in values.items()
        if any(isinstance(one, list) for one in found) or _is_joined(place, found)
    }
    place = _named(lists, LISTS)
    if place is None:
        # An object of ids and scores ends in places of its own: look for its name one level up.
        parents = {name.rpartition(".")[0]: found for name, found in values.items() if "." in name}
        place = _named(parents, ("hits", "retrieved", "value", "scores"))
    items: list[Any] = []
    for row in rows:
        value = _opened(find_value(row, place)) if place else None
        if isinstance(value, dict):
            value = [{"key": key, "value": inner} for key, inner in value.items()]
        if isinstance(value, str):
            value = value.split(_separator(place or "", values.get(place or "", ())) or "|")
        items += [item for item in value if item is not None] if isinstance(value, list) else []
    return (place, items) if items else (None, [])


def _is_joined(place: str, found: Sequence[Any]) -> bool:
    """Ids joined into one cell."""
    return plain_name(place) in LISTS and _separator(place, found) is not None


def _separator(place: str, found: Iterable[Any]) -> str | None:
    """What stands between the ids in a cell; texts have commas of their own."""
    texts = [one for one in found if isinstance(one, str)]
    signs = ("|", ";", ",") if plain_name(place).endswith("ids") else ("|",)
    return next((sign for sign in signs if any(sign in text for text in texts)), None)


def _is_side_by_side(guess: Guess, rows: Sequence[Row], place: str, values: dict[str, list[Any]]) -> bool:
    """Ids in one list and texts or scores in others, as several tools write them: equally long in every row."""

    def beside(names: Names) -> str | None:
        inner = place.removeprefix(place.removesuffix(INNER))
        places = [one + inner for one in values if plain_name(one) in names and one + inner != place]
        lengths = [_length(row, place) for row in rows]
        return next((one for one in places if [_length(row, one) for row in rows] == lengths), None)

    is_id = plain_name(place.removesuffix(INNER)) in ID_LISTS
    ids = place if is_id else beside(ID_LISTS)
    texts, scores = beside(TEXT_LISTS) if is_id else place, beside(SCORE_LISTS)
    if ids is None or (texts is None and scores is None):
        return False
    hits = guess.tables["hits"]
    hits.pop("list")
    found = {"chunk_id": ids, "text": texts, "score": scores}
    hits |= {name: one for name, one in found.items() if one is not None}
    guess.unsure.append(NO_DOCUMENT)
    return True


def _length(row: Row, place: str) -> int | None:
    found = _opened(find_value(row, place))
    return len(found) if isinstance(found, list) else 0 if found in (None, "") else None


def _is_list_in_list(rows: Sequence[Row], place: str, items: Sequence[Any]) -> bool:
    """Whether each query has all its hits in a list inside the list; pairs of ids and scores are hits themselves."""
    inner = [_opened(find_value(row, place)) for row in rows]
    return all(isinstance(one, list) and len(one) == 1 for one in inner) and not all(map(_is_pair, items))


def _is_pair(item: Any) -> bool:
    return len(item) > 1 and _is_number(item[1])


def _guess_nested_hits(guess: Guess, place: str, items: Sequence[list[Any]]) -> None:
    """A hit that is a list itself, such as id and score."""
    hits = guess.tables["hits"]
    hits["chunk_id"] = "0"
    scored = all(map(_is_pair, items))
    if scored:
        hits["score"] = "1"
    guess.unsure.append(
        f"The hits in {place!r} are lists: the first item is taken for the id"
        + (", the second for the score." if scored else ".")
    )


def _guess_bare_hits(guess: Guess, items: Sequence[Any], separator: str | None) -> None:
    hits = guess.tables["hits"]
    texts = [item for item in items if isinstance(item, str)]
    if texts and sum(map(len, texts)) / len(texts) > LONG_TEXT:
        hits["chunk_id"] = {"hash_of": [WHOLE]}
        hits["text"] = WHOLE
        guess.unsure.append(
            "The hits are texts without ids: a hash of the text stands for the chunk id, and labels "
            "have to use it."
        )
    else:
        hits["chunk_id"] = WHOLE
    if separator is not None or any("|" in str(value) for value in texts) or guess.form.format == "csv":
        hits["separator"] = separator or "|"


def _guess_hit_fields(guess: Guess, values: dict[str, list[Any]], *, n_hits: int) -> None:
    """Ids only from places that every hit has, because no hit goes without them."""
    everywhere = [place for place, found in values.items() if len(found) == n_hits]
    hits = guess.tables["hits"]
    taken: set[str] = set()
    for name, names in HIT_FIELDS.items():
        place = _named(everywhere if name.endswith("_id") else values, names, taken=taken)
        if place is not None:
            hits[name] = place
            taken.add(place)
    if "chunk_id" not in hits:
        hits["chunk_id"] = next(iter(values), WHOLE)
        guess.unsure.append(f"No chunk id was recognised in the hits; {hits['chunk_id']!r} was taken.")


def _guess_order(guess: Guess, values: dict[str, list[Any]]) -> None:
    hits = guess.tables["hits"]
    if "rank" in hits:
        hits["order"] = "rank"
        ranks = [str(value) for value in values.get(hits["rank"], [])]
        if ranks and min(ranks, key=lambda rank: (len(rank), rank)) == "0":
            hits["first_rank"] = 0
    elif "score" in hits and (guess.rows == "hit" or hits["score"] == "value"):
        hits["order"] = "score"
        guess.unsure.append("There is no rank: hits are ordered by score, the highest first.")
    elif guess.rows == "hit":
        guess.unsure.append("There is neither rank nor score: hits are taken in the order of the rows.")


def _note_missing_document(guess: Guess) -> None:
    if "doc_id" not in guess.tables["hits"]:
        guess.unsure.append(NO_DOCUMENT)


def _guess_units(guess: Guess, values: dict[str, list[Any]]) -> None:
    for place in sorted(guess.used() & values.keys()):
        odd = next((one for one in values[place] if isinstance(one, str) and _COMMAS.match(one)), None)
        if odd is not None:
            guess.unsure.append(
                f"{place!r} has numbers such as {odd.strip()}: what the comma separates is not guessed, write them "
                "without it."
            )
    latency = guess.tables["latency_ms"].get("total")
    if latency is not None and not any(plain_name(part).endswith("ms") for part in latency.split(".")):
        numbers = [float(value) for value in values[latency] if _is_number(value)]
        seconds = bool(numbers) and max(numbers) < 300
        guess.tables["latency_ms"]["unit"] = "s" if seconds else "ms"
        guess.unsure.append(f"{latency!r} is taken for {'seconds' if seconds else 'milliseconds'}.")
    judge = guess.tables["judge"]
    scores = [
        float(value) for place in judge.values() for value in values.get(place, []) if _is_number(value)
    ]
    if scores and max(scores) <= 1:
        judge["best_score"] = 1
        guess.unsure.append("Judge scores are taken for 0 to 1 and brought to 0 to 5.")


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and float(value) == float(value)
    except (TypeError, ValueError, OverflowError):
        return False
