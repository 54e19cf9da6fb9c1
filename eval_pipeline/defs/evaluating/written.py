"""What targets answered and judges said, as assets by run."""

import dagster as dg

from eval_pipeline.defs.assets import JUDGEMENTS, TARGET_RESPONSES
from eval_pipeline.defs.evaluating.steps import _asked_metadata, _end_unfinished, asking
from eval_pipeline.defs.events import Results, _shown_partitions
from eval_pipeline.defs.partitions import EVAL_RUN
from eval_pipeline.defs.resources import Listener, StoreResource
from eval_pipeline.loading.inbox import digest


def _target_responses() -> dg.AssetSpec:
    """Shown, and not made by itself: last night's answer is not tonight's, so nobody is asked for an old run."""
    return dg.AssetSpec(
        key=TARGET_RESPONSES,
        group_name="sources",
        partitions_def=EVAL_RUN,
        description="What the system under test answered when a suite was evaluated, by run. The job of a suite makes "
        "it; it cannot be made again for a night that is over.",
    )


def judgements(listener: Listener) -> dg.AssetsDefinition:
    """Materializing runs judges their stored answers again: all of a range one after the other, in one process."""

    @dg.asset(
        key=JUDGEMENTS,
        group_name="sources",
        deps=[TARGET_RESPONSES],
        partitions_def=EVAL_RUN,
        backfill_policy=dg.BackfillPolicy.single_run(),
        description="What judges said of a run. Materializing runs judges their stored answers again, as "
        "`eval-pipeline rejudge` does: no target is called, judges that cost money cost money, and what was paid "
        "already is not paid again. The job of a suite makes it as well.",
    )
    def rejudged(context: dg.AssetExecutionContext, store: StoreResource) -> Results:
        from eval_pipeline.planning.rejudge import load_rejudged, rejudge

        project = store.project(listener=listener)
        with listener.hearing_errors():
            with asking() as stop:
                found = rejudge(project, list(context.partition_keys), stop=stop)
            if found.complete:
                with store.limited():
                    load_rejudged(project, found)
            made = {one.run_id: _asked_metadata(one) for one in found.complete}
            version = digest([f"{context.run.run_id} {run_id}" for run_id in made])
            yield from _shown_partitions(
                context, JUDGEMENTS, made, version=None if found.stopped else version
            )
            _end_unfinished(found.stopped)

    return rejudged
