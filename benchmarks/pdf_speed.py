"""How many pages a second are parsed and chunked on one core? `python benchmarks/pdf_speed.py [FOLDER] [--files N]`

Reads the filings below FOLDER (default: pdf_qa in $REFDESK_DATA). Processor time, so that other work on the machine
does not count. Bar: 20 pages/s, parse and chunk together.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from refdesk.adapters.embed_onnx import ShippedTokenizer
from refdesk.ingest.chunk import ChunkLimits, chunk
from refdesk.ingest.parsers.options import ParseOptions
from refdesk.ingest.parsers.pdf import parse

BAR = 20.0


def main() -> int:
    data = Path(os.environ.get("REFDESK_DATA", "../shared/data"))
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", nargs="?", type=Path, default=data / "pdf_qa")
    arguments.add_argument("--files", type=int, default=0, help="only the first N files")
    given = arguments.parse_args()
    files = sorted(given.folder.rglob("*.pdf"))[: given.files or None]
    if not files:
        print(f"no PDFs below {given.folder}", file=sys.stderr)
        return 2
    count_tokens = ShippedTokenizer().count
    count_tokens([""])
    pages, parsing, chunking, chunks = 0, 0.0, 0.0, 0
    print("| file | pages | parse pages/s | parse + chunk pages/s |\n|---|---|---|---|")
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
        print(f"| {file.name} | {count} | {count / (middle - begin):.0f} | {count / (end - begin):.0f} |", flush=True)
    both = pages / (parsing + chunking)
    print(f"| **all {len(files)}** ({chunks} chunks) | {pages} | {pages / parsing:.0f} | {both:.0f} |")
    return 0 if both >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
