select
    path,
    line,
    run_id,
    query_id,
    field,
    reason,
    text,
    rejected_at
from ledger.quarantine
