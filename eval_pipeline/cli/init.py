"""eval-pipeline init"""

from __future__ import annotations

from pathlib import Path

import click

from eval_pipeline.cli.options import as_json
from eval_pipeline.cli.output import print_json, print_json_line, say, shortened
from eval_pipeline.errors import UsageError
from eval_pipeline.settings import check_overwriting, load_settings


@click.command("init")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("mapping.toml"),
    show_default=True,
    metavar="PATH",
    help="Where the mapping is written.",
)
@click.option("--force", is_flag=True, help="Write over a mapping that is there.")
@as_json
def command(file: Path, output: Path, force: bool, as_json: bool) -> None:
    """Look at a file of results (JSON Lines, JSON, CSV or Parquet) and write a mapping for it.

    The mapping says which fields mean what. It is a guess: look at the three rows that are shown, and at what it is
    unsure of, then load the file with it.
    """
    from eval_pipeline.adapters.proposal import propose_mapping

    check_overwriting(load_settings(), output, force=True)
    if output.exists() and not force:
        raise UsageError(f"{output} is there already; --force writes over it, --output PATH writes elsewhere")
    found = propose_mapping(file)
    try:
        output.write_text(found.text, "utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror or error}") from error
    following = f"eval-pipeline load {file} --mapping {output} --run-id RUN_ID --dataset DATASET --dry-run"
    if as_json:
        print_json(
            {
                "format": 1,
                "mapping": str(output),
                "rows_per": found.rows_per,
                "fields": found.fields,
                "rows": found.rows,
                "unsure": found.unsure,
                "unused": found.unused,
                "next": following,
            }
        )
        return
    say(f"Wrote {output}. The first rows, as they would be loaded:")
    for row in found.rows:
        print_json_line(shortened(row))
    for remark in found.unsure:
        say(f"Not sure: {remark}")
    say(f"Next: `{following}`")
