"""How many pages a second are parsed and chunked on one core? `python -m benchmarks.pdf_speed [FOLDER] [--files N]`

Reads the filings below FOLDER (default: pdf_qa in $REFDESK_DATA). Processor time, so that other work on the machine
does not count. Bar: 20 pages/s, parse and chunk together.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.common import DATA, Figure, write
from refdesk.ingest.chunk import ChunkLimits, chunk
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.pdf import parse
from refdesk.providers.shipped import ShippedTokenizer

BAR = 20.0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", nargs="?", type=Path, default=DATA / "pdf_qa")
    arguments.add_argument("--files", type=int, default=0, help="only the first N files")
    given = arguments.parse_args()
    files = sorted(given.folder.rglob("*.pdf"))[: given.files or None]
    if not files:
        print(f"no PDFs below {given.folder}", file=sys.stderr)
        return 2
    count_tokens = ShippedTokenizer().count
    count_tokens([""])
    pages, parsing, chunking, chunks = 0, 0.0, 0.0, 0
    figures = []
    for file in files:
        content = file.read_bytes()
        begin = time.process_time()
        parsed = parse(content, ParseOptions())
        middle = time.process_time()
        chunks += len(
            chunk(parsed, document_id="0", title=parsed.title, limits=ChunkLimits(), count_tokens=count_tokens)
        )
        end = time.process_time()
        count = len(parsed.pages)
        pages, parsing, chunking = pages + count, parsing + middle - begin, chunking + end - middle
        shown = f"{count / (middle - begin):.0f} parsed, {count / (end - begin):.0f} parsed and chunked"
        figures.append(Figure(f"{file.stem}, {count} pages", f"{shown} a second"))
    both = pages / (parsing + chunking)
    whole = f"**{both:.0f}** pages a second and core ({pages / parsing:.0f} parsed only)"
    figures.insert(0, Figure(f"{len(files)} filings, {pages} pages, {chunks} chunks", whole, "≥ 20", both >= BAR))
    write("pdf", "PDF parsing and chunking", figures, ["Processor time of one core."])
    return 0


if __name__ == "__main__":
    sys.exit(main())
