select rule, dataset_id as dataset, run_id, query_id, finding, decision, found_at
from ledger.lint
