select
    part,
    dataset_id as dataset,
    run_id,
    chunker_version,
    path,
    content_hash,
    n_bytes,
    n_rows,
    n_quarantined,
    delivered_at,
    delivered_by,
    superseded_at
from ledger.deliveries
