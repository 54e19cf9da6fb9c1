select
    runs.run_id,
    run_metrics.slice,
    run_metrics.slice_value,
    run_metrics.metric,
    run_metrics.value,
    run_metrics.n
from aggregates.run_metrics as run_metrics
inner join raw.runs as runs on run_metrics.run_key = runs.run_key
