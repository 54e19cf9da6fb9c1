-- keys:
--   accuracy: "Of the cases that should have the field, the share in which it is correct"
--   n: "How many cases should have it"
--   n_omission: "In how many of all cases it is missing"
--   n_hallucination: "In how many it was extracted and should not be there"
--   n_format_error: "In how many its value has the wrong type"
--   n_wrong_value: "In how many its value is wrong"
-- grain: [run_key, field]
-- version: 1
-- parameters: {rounding: half_even}
-- choices: {rounding: [half_even, half_up]}
-- undefined: null when no case that shows its ground truth has the field
-- why: docs/decisions.md#a1-5
-- examples:
--   - {extractions: [{ground_truth: {a: 1}, extracted: {a: 1}}, {ground_truth: {a: 1}, extracted: {a: 2}}]} => [{field: a, accuracy: 0.5, n: 2, n_wrong_value: 1}]
--   - {extractions: [{ground_truth: {a: 1}, extracted: {a: 1, b: 1}}]} => [{field: a, accuracy: 1, n: 1}, {field: b, accuracy: null, n: 0, n_hallucination: 1}]
--   - {extractions: [{total_gt_fields: 2, discrepancies: [{field: a, error_type: omission}]}]} => [{field: a, accuracy: null, n: 0, n_omission: 1}]
with named as (
    select
        fields.run_key,
        fields.field,
        fields.outcome,
        cases.has_ground_truth and fields.outcome <> 'hallucination' as is_expected
    from facts.field_outcomes as fields
    inner join facts.extraction_outcomes as cases
        on fields.run_key = cases.run_key and fields.case_key = cases.case_key
),

counted as (
    select
        run_key,
        field,
        count(*) filter (where is_expected) as n,
        count(*) filter (where is_expected and outcome = 'correct') as n_correct,
        count(*) filter (where outcome = 'omission') as n_omission,
        count(*) filter (where outcome = 'hallucination') as n_hallucination,
        count(*) filter (where outcome = 'format_error') as n_format_error,
        count(*) filter (where outcome = 'wrong_value') as n_wrong_value
    from named
    group by run_key, field
)

select
    run_key,
    field,
    rounded_by(n_correct / nullif(cast(n as double), 0), $rounding) as accuracy,
    n,
    n_omission,
    n_hallucination,
    n_format_error,
    n_wrong_value
from counted
