"""A bundle becomes rows of the store, all or nothing; what is wrong with it goes to quarantine.

cases         Which extraction cases a run should hold, and what of them is missing.
context       What every step of a load shares: where it goes, what it may do, and what it has done so far.
deliveries    Who delivered what when, and what of it was rejected.
file          One file of results loaded as a run: as it is, or through a mapping.
inbox         What lies in the inbox and is not in the store yet, and loading it.
lint          What looks odd in golden sets and deliveries: warnings that change no row and no exit code.
load          Bundles loaded into the store, and what that has put right in quarantine.
others        Files of other tools: recognised, made into a bundle with their labels, loaded or written out.
quarantine    What is in quarantine, and reading the files behind it again.
runs          Runs loaded in batches of about a second: read on other threads, written together.
write_labels  A golden set written as a version of the labels, one table per family, each with a hash.
"""
