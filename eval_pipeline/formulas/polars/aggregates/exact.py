"""Sums, percentiles and rounding as the helpers of SQL have them, as Polars expressions."""

from __future__ import annotations

import math

import polars as pl

UNIT = 2.0**-80
MOST_IN_UNITS = 1e7


def exact_sum(values: pl.Expr) -> pl.Expr:
    """By whole multiples of 2^-80, so that no order of the rows moves the last digit; null without a value."""
    units = (values / UNIT).cast(pl.Int128, strict=False).sum().cast(pl.Float64) * UNIT
    in_order = pl.when(values.count() > 0).then(values.sort().sum())
    return pl.when(values.abs().max() <= MOST_IN_UNITS).then(units).otherwise(in_order)


def exact_mean(values: pl.Expr) -> pl.Expr:
    """Of the values that are there; null without one."""
    return exact_sum(values) / values.count()


def percentile_of(values: pl.Expr, share: float, method: str) -> pl.Expr:
    """`linear` between two neighbours, or the `nearest` value that so many are at most."""
    return values.quantile(share, "linear" if method == "linear" else "equiprobable")


def rounded(values: pl.Expr, rounding: str) -> pl.Expr:
    """4 decimals of the double itself, `half_even` as Python rounds or `half_up`; Polars would multiply first."""
    return values.map_elements(lambda value: rounded_by(value, rounding), return_dtype=pl.Float64)


def rounded_by(value: float, rounding: str) -> float:
    """One number, never −0; only an odd multiple of 1/32 lies exactly between two numbers of 4 decimals."""
    is_between = rounding == "half_up" and abs(value * 32) % 2 == 1
    return round(value + math.copysign(0.00001, value) if is_between else value, 4) + 0.0
