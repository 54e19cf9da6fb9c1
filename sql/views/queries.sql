select
    datasets.dataset_id as dataset,
    query_ids.query_id,
    details.query_no,
    texts.text as query,
    details.lang,
    details.query_group,
    model_answers.text as reference
from ledger.golden_sets_in_force as golden_sets
inner join raw.datasets as datasets on golden_sets.dataset_key = datasets.dataset_key
inner join labels.query_details as details on golden_sets.golden_key = details.golden_key
inner join raw.query_ids as query_ids on details.query_key = query_ids.query_key
left join raw.texts as texts on details.text_key = texts.text_key
left join raw.texts as model_answers on details.reference_key = model_answers.text_key
