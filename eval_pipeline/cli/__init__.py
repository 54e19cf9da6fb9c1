"""The command line: reads arguments, calls pipeline, prints."""
