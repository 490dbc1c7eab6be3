"""Makes the example documents again, byte for byte: `python examples/make_documents.py [FOLDER]`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from makers import (
    book_manual,
    mail_enquiry,
    pdf_letter,
    pdf_mooring,
    pdf_price_list,
    pdf_report,
    plain_files,
    sheet_budget,
    slides_review,
    word_handbook,
)

DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "tg4-drift-report.pdf": pdf_report.make,
    "service-price-list-2026.pdf": pdf_price_list.make,
    "harbour-authority-letter.pdf": pdf_letter.make,
    "wb7-mooring-sheet.pdf": pdf_mooring.make,
    "staff-handbook.docx": word_handbook.make,
    "quarterly-review-q3-2025.pptx": slides_review.make,
    "budget-2026.xlsx": sheet_budget.make,
    "lodin-point-readings.csv": plain_files.make_readings,
    "tg4-support.html": plain_files.make_support_page,
    "telemetry-runbook.md": plain_files.make_runbook,
    "protokoll-cuxhaven.txt": plain_files.make_minutes,
    "warranty-enquiry.eml": mail_enquiry.make,
    "wb7-field-manual.epub": book_manual.make,
    "kitahama-maintenance.txt": plain_files.make_maintenance_report,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the example documents again.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "documents")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in DOCUMENTS.items():
        data = make()
        (folder / name).write_bytes(data)
        print(f"{len(data):>8}  {name}")


if __name__ == "__main__":
    main()
