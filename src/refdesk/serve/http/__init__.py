"""The HTTP service: routes that parse, call the engine, and return or stream.

app.py lists the routers; observe.py and guard.py stand before them all.
"""
