"""Sheets of tens of thousands of rows in a library: read, cut and kept as any file is, with vectors that cost nothing.

To embed 20,000 rows takes a minute; which chunk of a sheet is found does not matter, for all lead to the same table.
"""

from __future__ import annotations

import csv
import datetime
import io
import random
from typing import Any, NamedTuple

import numpy as np
import openpyxl

from refdesk import Refdesk
from refdesk.config import hash_bytes
from refdesk.ingest.worker import chunk_limits, prepare
from refdesk.parsers.build import ParseOptions
from refdesk.ports import Embedded
from refdesk.settings import Settings
from refdesk.store_ports import Ready
from refdesk.types import Document

HEAD = ["Order", "Date", "Region", "Customer", "Status", "Units", "Price", "Amount"]
REGIONS = ("North", "South", "East", "West")
STATUS = ("shipped", "cancelled", "returned")
CUSTOMERS = tuple(f"{name} {kind}" for name in ("Acme", "Birk", "Calder", "Dunmore") for kind in ("Foods", "Marine"))


class Order(NamedTuple):
    order: str
    date: datetime.date
    region: str
    customer: str
    status: str
    units: int
    price: float
    amount: float


def orders(count: int, seed: int = 5) -> list[Order]:
    chance = random.Random(seed)
    made = []
    for number in range(count):
        day = datetime.date(2022, 1, 1) + datetime.timedelta(days=chance.randrange(1095))
        units, price = chance.randrange(1, 90), round(chance.uniform(3, 400), 2)
        status = chance.choices(STATUS, (8, 1, 1))[0]
        made.append(
            Order(
                f"O-{number:06}",
                day,
                chance.choice(REGIONS),
                chance.choice(CUSTOMERS),
                status,
                units,
                price,
                round(units * price, 2),
            )
        )
    return made


def as_csv(found: list[Order]) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(HEAD)
    rows.writerows(found)
    return text.getvalue().encode()


def as_xlsx(found: list[Order]) -> bytes:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Orders")
    sheet.append(HEAD)
    for one in found:
        sheet.append(list(one))
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


def store_sheet(desk: Refdesk, name: str, data: bytes, collection: str = "default") -> None:
    embedder: Any = desk.parts.embedder
    document = Document("", name, collection, hash_bytes(data), "ready")
    prepared = prepare(data, document, ParseOptions(), chunk_limits(Settings(), embedder), embedder.count_tokens)
    chance = np.random.default_rng(3)
    embedded = []
    for chunk in prepared.chunks:
        vector = chance.standard_normal(embedder.dimensions).astype(np.float32)
        sentences = np.zeros((len(chunk.sentences), embedder.dimensions), np.int8)
        embedded.append(Embedded(vector / np.linalg.norm(vector), sentences))
    desk.parts.writer.store([Ready(prepared, embedded)])
