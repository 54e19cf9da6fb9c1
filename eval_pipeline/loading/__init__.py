"""A bundle becomes rows of the store here, all of it or nothing, and what is wrong with it is kept and said.

context       What every step of a load shares: where it goes, what it may do, and what it has done so far.
deliveries    Who delivered what when, and what of it was rejected.
file          Take in a single file of results as a run: as it is, or through a mapping.
inbox         What lies in the inbox and is not in the store yet.
lint          What looks odd in a golden set or in a delivery: warnings, that change no row and no exit code.
load          After a load: what it has put right in quarantine, and which labels its archives know.
quarantine    Which files stand behind quarantine, where they are now, and whether reading them again would give
              other rows.
runs          Take in runs, in batches of about a second: read on other threads, written together.
write_labels  Golden sets: a version of the labels, one table per family, each with a hash of its own.
"""
