"""Golden questions and answers go out, what comes back is kept: calls to the system under test and to judges.

answers       asking a target, and the result rows that its replies make
asked         which answers are judged, by whom, on what
baseline      a judge that counts words in common
budget        money put aside before it is spent
calls         the store of every answer that was paid
channels      ways to reach somebody
endpoint      pauses, pace, and when to stop
executor      so many calls at once, and what is done when one fails
http          the one place that speaks HTTP
identity      what makes two requests the same
judges        requests and replies of each kind of judge
judging       asking the judges, and the rows that their answers make
known         forty answers whose right judgement is known, to try a judge
prompt_files  what judges are told
run_bundle    the bundle of a run, begun and continued
setup         [targets], [judges] and [suites]
targets       what a target is sent, and what its reply means
workers       programs on this machine that answer
"""
