-- arguments: [x, rounding]
-- why: docs/decisions.md#ax-1
-- examples:
--   - rounded_by(0.03125, 'half_even') => 0.0312
--   - rounded_by(0.03125, 'half_up') => 0.0313
--   - rounded_by(-0.03125, 'half_up') => -0.0313
--   - rounded_by(0.00625, 'half_up') => 0.0063
--   - rounded_by(0.33333, 'half_up') => 0.3333
--   - rounded_by(-0.00001, 'half_up') => 0
--   - rounded_by(null, 'half_up') => null

-- A double lies exactly between two numbers of 4 decimals only when it is an odd multiple of 1/32.
case when rounding = 'half_up' and abs(x * 32) % 2 = 1 then rounded(x + sign(x) / 100000) else rounded(x) end
