"""Programs on this machine that answer questions: JSON lines in and out, each process ended when it hangs.

processes    a few of them, one question at a time each
python_side  what such a process runs for a function in Python
"""
