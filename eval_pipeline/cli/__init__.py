"""The command line: reads arguments, calls the other rooms, prints; a command is a file."""
