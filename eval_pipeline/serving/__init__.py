"""Dagster's three servers as children of one process: started again when they end, ended when it ends.

care         What servers need beside being started: deaf ones noticed, dead runs failed, a full disk told.
child        A server that ends when the process that serves it is gone: `python -m eval_pipeline.serving.child`.
children     A server as a process group of its own: started, looked after, ended with all that it started.
health       Whether web server, daemon and code location answer, and the address where one can ask.
restarts     When a server that ended is started again, and when that is hopeless.
servers      Which servers there are, what must hold before they are started, and how they are asked.
supervisor   The loop: starts servers, starts them again, ends everything.
"""
