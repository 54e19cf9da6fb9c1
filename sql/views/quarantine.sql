select
    quarantine.path,
    quarantine.line,
    coalesce(quarantine.dataset_id, datasets.dataset_id) as dataset,
    quarantine.run_id,
    quarantine.query_id,
    quarantine.field,
    quarantine.reason,
    quarantine.text,
    quarantine.rejected_at,
    quarantine.resolved_at
from ledger.quarantine as quarantine
left join raw.runs as runs on quarantine.run_id = runs.run_id
left join raw.datasets as datasets on runs.dataset_key = datasets.dataset_key
