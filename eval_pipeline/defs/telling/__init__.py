"""What people are told without having a run: that one has failed, what was computed elsewhere, what is stale.

existing         Cells that were computed past this Dagster are shown in it, without a run.
failures         The sensor that tells a webhook which Dagster run has failed, and why.
staleness        Dagster's own stale marks for all partitions of an asset at once.
webhook          One JSON document sent to one address, within seconds or not at all.
"""
