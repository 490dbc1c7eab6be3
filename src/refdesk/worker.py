"""The composition root of a worker process; small, so that workers start without the database and the interfaces."""

from __future__ import annotations

from refdesk.ingest.worker import Preparer, run
from refdesk.ingest.workers import Setup
from refdesk.providers.extras import load_ocr, make_embedder


def make_preparer(setup: Setup) -> Preparer:
    ocr = load_ocr() if setup.settings.ocr else None
    return Preparer(setup.settings, make_embedder(setup.config, threads=1), ocr)


def main() -> None:
    run(make_preparer)
