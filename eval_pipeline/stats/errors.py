"""What the statistics refuse.

ValueError
└── StatisticsInputError        numbers or options no statistic can be computed from
    ├── UnpairedValues          two sides, or values and labels, of different length or shape
    ├── UndefinedValue          NaN or an infinite number among the values
    ├── ImpossibleValue         a value its scale does not allow, such as 0.5 on a binary one
    └── ImpossibleOption        an unknown scale or alternative, a confidence outside (0, 1), and the like
"""

from __future__ import annotations


class StatisticsInputError(ValueError):
    """Numbers or options no statistic can be computed from."""


class UnpairedValues(StatisticsInputError):
    """Two sides, or values and labels, differ in length or shape."""


class UndefinedValue(StatisticsInputError):
    """NaN or an infinite number stands among the values."""


class ImpossibleValue(StatisticsInputError):
    """A value lies outside what its scale allows."""


class ImpossibleOption(StatisticsInputError):
    """An option is unknown or out of range."""
