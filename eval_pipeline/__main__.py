"""python -m eval_pipeline"""

from __future__ import annotations

from eval_pipeline.cli.main import main

main()
