"""`refdesk`, and `python -m refdesk`."""

from __future__ import annotations

from refdesk.serve.cli.main import main

if __name__ == "__main__":
    main()
