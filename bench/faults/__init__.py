"""Faults on purpose: killed, torn, full, broken, crowded and fuzzed, held against what nobody disturbed.

`preload` compiles the library that injects; `faulty` is a command under it; `world` the commands with their undisturbed
twins; `verdicts` what may be different afterwards; `operations`, `crowd`, `damage` and `fuzz` draw the cases.
"""
