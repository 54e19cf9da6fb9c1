"""The command line: reads arguments, calls the other rooms, prints; each command is a file."""
