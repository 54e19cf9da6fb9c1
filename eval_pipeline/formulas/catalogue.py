"""The catalogue: everything there is to know about a definition, from the definition itself."""

from __future__ import annotations

from typing import Any, Final

from eval_pipeline.errors import UnknownName
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry

# As rules of a gate and comparisons name what is measured over the cases of a run.
EXTRACTION: Final = "extraction."


def find_definition(registry: Registry, name: str) -> Definition:
    """By full name, short name, or a key: of a metric, or of what is measured over a whole run."""
    keys = {key: one for one in (*registry.summaries, *registry.metrics) for key in one.keys}
    key = name.removeprefix(EXTRACTION)
    if key in keys:
        return keys[key]
    try:
        return registry.get(name)
    except UnknownName as error:
        raise UnknownName("metric", name, [*keys, *(one.short_name for one in registry)]) from error


def describe(registry: Registry, one: Definition) -> dict[str, Any]:
    """A definition as a document."""
    header = one.header
    return {
        "name": one.name,
        "keys": one.keys,
        "grain": list(one.grain),
        "version": header.version,
        "fingerprint": one.fingerprint,
        "parameters": dict(header.parameters),
        "choices": {name: list(options) for name, options in header.choices.items()},
        "applies": header.applies,
        "undefined": header.undefined,
        "scale": header.scale,
        "range": list(header.value_range),
        "direction": header.direction,
        "aggregate": header.aggregate,
        "why": header.why,
        "examples": [example.line for example in header.examples],
        "reads": list(one.reads),
        "read_by": [other.name for other in registry if one.name in other.reads],
        "reading_of": one.variant_of,
        "language": "python" if one.is_python else "sql",
        "file": str(one.path),
        "body": one.body,
        "about": header.about,
        "family": one.family,
        "headline": list(one.headline),
    }


def as_text(found: dict[str, Any]) -> str:
    """The document for people."""
    lines = [f"{found['name']}  version {found['version']}  {found['fingerprint']}"]
    lines += [found["about"], ""] if found["about"] else [""]
    width = max(len(key) for key in found["keys"]) if found["keys"] else 0
    lines += [f"  {key:<{width}}  {meaning}" for key, meaning in found["keys"].items()]
    lines.append("")
    for label, value in _facts_about(found):
        lines.append(f"{label:<12}{value}")
    if found["examples"]:
        lines += ["", "examples"]
        lines += [f"  {example}" for example in found["examples"]]
    lines += ["", found["body"].rstrip()]
    return "\n".join(lines)


def _facts_about(found: dict[str, Any]) -> list[tuple[str, str]]:
    is_metric = found["name"].startswith("metrics.")
    parameters = [
        f"{name} = {value}"
        + (f"  (or {', '.join(str(o) for o in options if o != value)})" if options else "")
        for name, value in found["parameters"].items()
        for options in [found["choices"].get(name)]
    ]
    facts = [
        ("applies", found["applies"] or ("to every row" if is_metric else None)),
        ("one row per", ", ".join(found["grain"])),
        ("undefined", found["undefined"]),
        ("parameters", "; ".join(parameters) or None),
        ("scale", f"{found['scale']}, {found['direction']} is better" if is_metric else None),
        ("aggregate", found["aggregate"] if is_metric else None),
        ("family", _family_of(found) if is_metric else None),
        ("reads", ", ".join(found["reads"])),
        ("read by", ", ".join(found["read_by"]) or None),
        ("reading of", found["reading_of"]),
        ("why", found["why"]),
        ("file", found["file"]),
    ]
    return [(label, str(value)) for label, value in facts if value is not None]


def _family_of(found: dict[str, Any]) -> str:
    headline = ", ".join(found["headline"])
    return f"{found['family']}, with {headline} as its headline" if headline else found["family"]
