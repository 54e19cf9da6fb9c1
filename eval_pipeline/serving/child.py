"""A server that ends when the process that serves it is gone: `python -m eval_pipeline.serving.child`."""

from __future__ import annotations

import runpy
import sys

from eval_pipeline.defs.processes import end_with_the_supervisor, hasten_backfills

WEB_SERVER = "dagster_webserver"


def _main() -> None:
    """Become the module that is named first, with the arguments that follow."""
    end_with_the_supervisor()
    hasten_backfills()
    if sys.argv[1] == WEB_SERVER:
        from eval_pipeline.defs.telling.staleness import answer_staleness_at_once

        answer_staleness_at_once()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
