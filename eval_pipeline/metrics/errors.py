"""What the metric functions refuse, and the one thing they warn about.

ValueError
└── MetricInputError            any input no metric can be computed from
    ├── InvalidChunkIds         a single text where a list of chunk ids belongs
    ├── InvalidSpan             a span that is inverted, negative or no span at all
    ├── UnknownErrorType        a discrepancy of a type outside the four known ones
    ├── ImpossibleCounts        counts that contradict each other, such as more errors than fields
    ├── InvalidField            a document or discrepancy whose fields cannot be told apart or compared
    ├── UnusableMetrics         an eval result whose metrics are missing or no rates and counts
    └── UnknownReading          an option that is none of the declared readings of a rule

UserWarning
└── UnexpectedEvalCount         an aggregate over more or fewer evals than were expected
"""

from __future__ import annotations


class MetricInputError(ValueError):
    """Any input no metric can be computed from."""


class InvalidChunkIds(MetricInputError):
    """A single text stands where a list of chunk ids belongs."""


class InvalidSpan(MetricInputError):
    """A span is inverted, negative, or no span at all."""


class UnknownErrorType(MetricInputError):
    """A discrepancy has a type outside the four known ones."""


class ImpossibleCounts(MetricInputError):
    """Counts contradict each other."""


class InvalidField(MetricInputError):
    """The fields of a document or discrepancy cannot be told apart or compared."""


class UnusableMetrics(MetricInputError):
    """The metrics of an eval result are missing, or no rates and counts."""


class UnknownReading(MetricInputError):
    """An option is none of the declared readings of a rule."""


class UnexpectedEvalCount(UserWarning):
    """An aggregate covers more or fewer evals than were expected."""
