-- keys:
--   has_failed: "The case failed to run"
--   has_ground_truth: "The case says what should have been extracted, field by field"
--   total_gt_fields: "How many fields should have been extracted"
--   n_omission: "How many of them are missing"
--   n_hallucination: "How many fields were extracted that should not be there"
--   n_format_error: "How many fields have a value of the wrong type"
--   n_wrong_value: "How many fields have a wrong value of the right type"
-- about: "How many fields of an extraction case are missing, wrong or invented."
-- version: 1
-- why: docs/decisions.md#a1-10
-- examples:
--   - {extractions: [{ground_truth: {a: 1, b: 2}, extracted: {b: "2", c: 3}}]} => {total_gt_fields: 2, n_omission: 1, n_hallucination: 1, n_format_error: 1, n_wrong_value: 0}
--   - {extractions: [{total_gt_fields: 3, discrepancies: []}]} => {has_ground_truth: false, total_gt_fields: 3, n_omission: 0}
--   - {extractions: [{ground_truth: {}}]} => {has_ground_truth: true, total_gt_fields: 0}
--   - {extractions: [{error: crashed}]} => {has_failed: true, total_gt_fields: null}
with counted as (
    select
        run_key,
        case_key,
        count(*) filter (where outcome <> 'hallucination') as n_expected,
        count(*) filter (where outcome = 'omission') as n_omission,
        count(*) filter (where outcome = 'hallucination') as n_hallucination,
        count(*) filter (where outcome = 'format_error') as n_format_error,
        count(*) filter (where outcome = 'wrong_value') as n_wrong_value
    from facts.field_outcomes
    group by run_key, case_key
)

select
    cases.run_key,
    cases.case_key,
    cases.has_failed,
    cases.ground_truth is not null as has_ground_truth,
    case
        when not cases.has_failed then coalesce(cases.total_gt_fields, counted.n_expected, 0)
    end as total_gt_fields,
    coalesce(counted.n_omission, 0) as n_omission,
    coalesce(counted.n_hallucination, 0) as n_hallucination,
    coalesce(counted.n_format_error, 0) as n_format_error,
    coalesce(counted.n_wrong_value, 0) as n_wrong_value
from raw.extraction_cases as cases
left join counted on cases.run_key = counted.run_key and cases.case_key = counted.case_key
