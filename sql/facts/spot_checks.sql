-- keys:
--   is_comparable: "Both sides have a score from 0 to 5, or both have a verdict of yes or no"
--   disagrees: "The scores are further apart than ${tolerance}, or the verdicts differ; null when neither can be compared"
-- version: 1
-- parameters: {tolerance: 1}
-- why: docs/decisions.md#a2-21
-- examples:
--   - {spot_checks: [{first: {score: 4}, second: {score: 2}}]} => {is_comparable: true, disagrees: true}
--   - {spot_checks: [{first: {score: 4}, second: {score: 3}}]} => {disagrees: false}
--   - {spot_checks: [{first: {score: 4, binary: true}, second: {score: 4, binary: false}}]} => {disagrees: true}
--   - {spot_checks: [{first: {score: 4}, second: {binary: true}}]} => {is_comparable: false, disagrees: null}
--   - {spot_checks: [{first: {score: 9}, second: {score: 1}}]} => {is_comparable: false, disagrees: null}
with compared as (
    select
        run_key,
        check_no,
        case
            when first_score between 0 and 5 and second_score between 0 and 5
                then abs(first_score - second_score) > $tolerance
        end as scores_differ,
        first_binary <> second_binary as verdicts_differ
    from raw.spot_checks
)

select
    run_key,
    check_no,
    coalesce(scores_differ, verdicts_differ) is not null as is_comparable,
    case
        when coalesce(scores_differ, verdicts_differ) is not null
            then coalesce(scores_differ, false) or coalesce(verdicts_differ, false)
    end as disagrees
from compared
