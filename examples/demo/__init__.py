"""The whole product on one machine, to a visible end: `python -m examples.demo`.

Hashes every file of the standard library as one job each while a worker is killed and some jobs
fail, then checks what came of it through the client only: nothing is read behind the server's back.
"""
