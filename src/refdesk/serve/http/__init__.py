"""The HTTP service: routes that parse, call the engine, and return or stream.

app.py lists the routers; observe.py, guard.py and errors.py stand before them all.
"""
