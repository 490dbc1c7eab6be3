"""PDFs with known truth: every sample knows its sentences, their pages and their boxes as displayed.

The truth of a line is its advance width by the font's ascent and descent as the font's metrics file states them
(reportlab's tables, not pdfium's), taken through crop, rotation and origin by the arithmetic below, which shares no
code with the parser.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pypdfium2
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas

Rect = tuple[
    float, float, float, float
]  # left, bottom, right, top in page space, or left, top, right, bottom displayed

for _font in ("HeiseiMin-W3", "STSong-Light", "HYSMyeongJo-Medium"):
    pdfmetrics.registerFont(UnicodeCIDFont(_font))

WORDS = (  # noqa: SIM905
    "harbour lantern mortar cedar granite orchard meadow copper violet thunder window ladder barrel compass marble "
    "saddle feather anchor bridge candle velvet garden pepper silver timber walnut ribbon kettle basket hollow"
).split()


@dataclass(frozen=True)
class Truth:
    """A sentence and where it stands: (page, left, top, right, bottom) in per cent, one per line."""

    sentence: str
    boxes: tuple[tuple[int, float, float, float, float], ...]


@dataclass(frozen=True)
class Sample:
    name: str
    data: bytes
    truths: tuple[Truth, ...]


@dataclass
class View:
    """How a page is shown: the visible rectangle in page space and the clockwise rotation in degrees."""

    box: Rect = (0, 0, 595, 842)
    rotation: int = 0

    def percent(self, rect: Rect) -> tuple[float, float, float, float]:
        corners = [self._point(x, y) for x in (rect[0], rect[2]) for y in (rect[1], rect[3])]
        xs, ys = [c[0] for c in corners], [c[1] for c in corners]
        return min(xs), min(ys), max(xs), max(ys)

    def _point(self, x: float, y: float) -> tuple[float, float]:
        left, bottom, right, top = self.box
        across, up = (x - left) / (right - left), (y - bottom) / (top - bottom)  # 0..1, origin bottom left
        for _ in range(self.rotation // 90):  # a quarter turn clockwise: up becomes right
            across, up = up, 1 - across
        return 100 * across, 100 * (1 - up)


@dataclass
class Sheet:
    """Draws text and remembers where; `build` turns it into a sample."""

    name: str
    size: tuple[float, float] = (595, 842)
    views: list[View] = field(default_factory=list)  # one per page; the last holds for the rest
    encrypt: StandardEncryption | None = None

    def __post_init__(self) -> None:
        self.buffer = io.BytesIO()
        self.canvas = Canvas(self.buffer, pagesize=self.size, encrypt=self.encrypt, invariant=1)
        self.page = 1
        self.marks: dict[str, list[tuple[int, Rect]]] = {}
        self.order: list[str] = []

    def mark(self, key: str, rect: Rect) -> None:
        if key not in self.marks:
            self.marks[key] = []
            self.order.append(key)
        self.marks[key].append((self.page, rect))

    def text(self, text: str, x: float, y: float, font: str = "Helvetica", size: float = 10, angle: float = 0,
             key: str | None = None) -> None:  # fmt: skip
        """One line with its base line at (x, y), turned counter-clockwise by `angle`; remembered under `key`."""
        self.canvas.saveState()
        self.canvas.translate(x, y)
        self.canvas.rotate(angle)
        self.canvas.setFont(font, size)
        self.canvas.drawString(0, 0, text)
        self.canvas.restoreState()
        if key is not None:
            ascent, descent = pdfmetrics.getAscentDescent(font, size)
            width = pdfmetrics.stringWidth(text, font, size)
            cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            points = [
                (x + a * cosine - b * sine, y + a * sine + b * cosine) for a in (0, width) for b in (descent, ascent)
            ]
            xs, ys = [p[0] for p in points], [p[1] for p in points]
            self.mark(key, (min(xs), min(ys), max(xs), max(ys)))

    def known(self, text: str, x: float, y: float, font: str = "Helvetica", size: float = 10, angle: float = 0) -> None:
        self.text(text, x, y, font, size, angle, key=text)

    def paragraph(self, sentences: list[str], x: float, y: float, width: float, font: str = "Helvetica",
                  size: float = 10) -> float:  # fmt: skip
        """Sentences set ragged right from (x, y) down; returns the base line below the last line."""
        line: list[tuple[str, str]] = []
        blank = pdfmetrics.stringWidth(" ", font, size)
        for sentence in sentences:
            for word in sentence.split():
                used = pdfmetrics.stringWidth(" ".join(w for w, _ in [*line, (word, "")]), font, size)
                if line and used > width:
                    self._line(line, x, y, font, size, blank)
                    line, y = [], y - 1.25 * size
                line.append((word, sentence))
        self._line(line, x, y, font, size, blank)
        return y - 1.25 * size

    def _line(self, line: list[tuple[str, str]], x: float, y: float, font: str, size: float, blank: float) -> None:
        self.text(" ".join(word for word, _ in line), x, y, font, size)
        ascent, descent = pdfmetrics.getAscentDescent(font, size)
        for sentence in dict.fromkeys(key for _, key in line):
            own = [i for i, (_, key) in enumerate(line) if key == sentence]
            before = " ".join(word for word, _ in line[: own[0]])
            left = x + (pdfmetrics.stringWidth(before, font, size) + blank if before else 0)
            width = pdfmetrics.stringWidth(" ".join(word for word, key in line if key == sentence), font, size)
            self.mark(sentence, (left, y + descent, left + width, y + ascent))

    def next_page(self) -> None:
        self.canvas.showPage()
        self.page += 1

    def view(self, page: int) -> View:
        if not self.views:
            return View((0, 0, *self.size))
        return self.views[min(page, len(self.views)) - 1]

    def build(self, change: Callable[[bytes], bytes] | None = None) -> Sample:
        self.canvas.showPage()
        self.canvas.save()
        data = self.buffer.getvalue()
        if self.views:
            data = _with_views(data, [self.view(page) for page in range(1, self.page + 1)])
        if change is not None:
            data = change(data)
        truths = []
        for key in self.order:
            boxes = tuple((page, *self.view(page).percent(rect)) for page, rect in self.marks[key])
            truths.append(Truth(key, boxes))
        return Sample(self.name, data, tuple(truths))


def _with_views(data: bytes, views: list[View]) -> bytes:
    """Sets crop box and rotation of every page; the media box is widened to hold the crop box."""
    document = pypdfium2.PdfDocument(data)
    for page, view in zip(document, views, strict=True):
        left, bottom, right, top = page.get_mediabox()
        x0, y0, x1, y1 = view.box
        page.set_mediabox(min(left, x0), min(bottom, y0), max(right, x1), max(top, y1))
        page.set_cropbox(*view.box)
        page.set_rotation(view.rotation)
    buffer = io.BytesIO()
    document.save(buffer)
    document.close()
    return buffer.getvalue()


def sentence(number: int, length: int = 9) -> str:
    """Made of common words, never the same twice."""
    chosen = [WORDS[(number * 7 + i * (number % 5 + 2)) % len(WORDS)] for i in range(length)]
    return f"Sentence {number} has the {' '.join(chosen)}."


def body(sheet: Sheet, first: int, x: float, y: float, width: float, paragraphs: int = 3, **style: object) -> float:
    for index in range(paragraphs):
        start = first + 4 * index
        y = sheet.paragraph([sentence(n, 7 + n % 6) for n in range(start, start + 4)], x, y, width, **style) - 8  # type: ignore[arg-type]
    return y


def plain(font: str, size: float) -> Sample:
    sheet = Sheet(f"plain_{font.lower()}_{size:g}")
    body(sheet, 1, 70, 760, 440, 4, font=font, size=size)
    return sheet.build()


def rotated(degrees: int) -> Sample:
    sheet = Sheet(f"rotated_{degrees}", views=[View((0, 0, 595, 842), degrees)])
    body(sheet, 1, 70, 760, 440)
    return sheet.build()


def rotated_upright(degrees: int) -> Sample:
    """The text is drawn turned, so that it stands upright once the page is turned."""
    sheet = Sheet(f"rotated_{degrees}_upright", views=[View((0, 0, 595, 842), degrees)])
    for index in range(8):
        offset = 80 + 16 * index
        x, y = {90: (offset, 90), 180: (520, offset), 270: (500 - offset, 760)}[degrees]
        sheet.known(sentence(index + 1, 8), x, y, angle=degrees)
    return sheet.build()


def sideways() -> Sample:
    """No rotation in the page, but all its text runs upwards."""
    sheet = Sheet("sideways")
    for index in range(8):
        sheet.known(sentence(index + 1, 8), 100 + 16 * index, 90, angle=90)
    return sheet.build()


def cropped(rotation: int = 0) -> Sample:
    sheet = Sheet(f"cropped_{rotation}", views=[View((50, 100, 545, 800), rotation)])
    body(sheet, 1, 70, 760, 440)
    sheet.text("Cut off and never seen", 70, 60)
    return sheet.build()


def negative_origin(rotation: int = 0) -> Sample:
    sheet = Sheet(f"negative_origin_{rotation}", size=(595, 842), views=[View((-200, -300, 395, 542), rotation)])
    body(sheet, 1, -130, 460, 440)
    return sheet.build()


def two_columns(order: str) -> Sample:
    """`mixed`: title and footnote across both; `rowwise`: drawn line by line across the gutter."""
    sheet = Sheet(f"two_columns_{order}")
    y = 770.0
    if order == "mixed":
        sheet.known("A Title Across Both Columns Of The Page", 120, 780, "Helvetica-Bold", 16)
        y = sheet.paragraph([sentence(90, 16), sentence(91, 14)], 60, 745, 475) - 14
    if order == "rowwise":
        left = [sentence(n, 3) for n in range(1, 31)]
        right = [sentence(n, 3) for n in range(31, 61)]
        for one, other in zip(left, right, strict=True):
            sheet.text(one, 60, y, size=9, key=one)
            sheet.text(other, 310, y, size=9, key=other)
            y -= 12
        return sheet.build()
    bottom = body(sheet, 1, 60, y, 225, 4)
    body(sheet, 17, 310, y, 225, 4)
    if order == "mixed":
        sheet.paragraph([sentence(95, 16), sentence(96, 12)], 60, bottom - 30, 475)
    return sheet.build()


def three_columns() -> Sample:
    sheet = Sheet("three_columns")
    for column in range(3):
        body(sheet, 1 + 20 * column, 50 + 170 * column, 770, 150, 5, size=9)
    return sheet.build()


def table(ruled: bool, pages: int) -> Sample:
    """The header row stands on every page; each row's first cell is known."""
    sheet = Sheet(f"table_{'ruled' if ruled else 'borderless'}_{pages}")
    columns = [70, 250, 350, 450, 540]
    number = 0
    for page in range(pages):
        if page:
            sheet.next_page()
        y = 770.0
        if page == 0:
            y = sheet.paragraph([sentence(1, 12), sentence(2, 10)], 70, y, 440) - 20
        top = y + 14
        rows = 28 if pages > 1 else 12
        for row in range(rows + 1):
            if row == 0:
                cells = ["Product name", "Ordered", "Shipped", "Price"]
            else:
                number += 1
                cells = [
                    f"Product {WORDS[number % 30]} {number}",
                    f"{number * 37 % 900}",
                    f"{number * 11 % 800}",
                    f"{number * 3}.50",
                ]
            for index, (cell, x) in enumerate(zip(cells, columns, strict=False)):
                font = "Helvetica-Bold" if row == 0 else "Helvetica"
                sheet.text(cell, x + 4, y, font, 9, key=cell if row and index == 0 else None)
            y -= 18
        if ruled:
            for row in range(rows + 2):
                sheet.canvas.line(columns[0], top - 18 * row, columns[-1], top - 18 * row)
            for x in columns:
                sheet.canvas.line(x, top, x, top - 18 * (rows + 1))
        if page == pages - 1:
            sheet.paragraph([sentence(3, 12)], 70, y - 30, 440)
    return sheet.build()


_JAPANESE = [
    "図書館は町の中心にある。",
    "資料は毎朝九時から読むことができる。",
    "貸出は一人五冊までと決められている。",
    "返却が遅れたときは窓口に連絡してください。",
]
_CHINESE = ["图书馆位于城市的中心。", "读者每天早上九点可以进馆。", "每人最多可以借五本书。", "逾期归还请联系服务台。"]
_KOREAN = [
    "도서관은 도시의 중심에 있습니다.",
    "자료는 매일 아침 아홉 시부터 볼 수 있습니다.",
    "대출은 한 사람당 다섯 권까지입니다.",
]


def cjk(name: str, font: str, sentences: list[str], size: float = 12) -> Sample:
    """Sentences one after the other in lines of 22 characters."""
    sheet = Sheet(f"cjk_{name}")
    ascent, descent = pdfmetrics.getAscentDescent(font, size)
    stream = [(character, text) for text in sentences for character in text]
    for row in range(0, len(stream), 22):
        line = stream[row : row + 22]
        y = 760 - row / 22 * 18
        sheet.text("".join(character for character, _ in line), 80, y, font, size)
        for text in dict.fromkeys(key for _, key in line):
            before = "".join(line[i][0] for i in range(next(i for i, (_, key) in enumerate(line) if key == text)))
            own = "".join(character for character, key in line if key == text)
            left = 80 + pdfmetrics.stringWidth(before, font, size)
            sheet.mark(text, (left, y + descent, left + pdfmetrics.stringWidth(own, font, size), y + ascent))
    return sheet.build()


def korean() -> Sample:
    sheet = Sheet("cjk_korean")
    for index, text in enumerate(_KOREAN):
        sheet.known(text, 80, 760 - 40 * index, "HYSMyeongJo-Medium", 12)
    return sheet.build()


def hyphenated() -> Sample:
    sheet = Sheet("hyphenated")
    lines = [
        "The committee agreed that the inter-",
        "national treaty on coastal naviga-",
        "tion would be signed before winter.",
    ]
    whole = "The committee agreed that the international treaty on coastal navigation would be signed before winter."
    for index, line in enumerate(lines):
        sheet.text(line, 70, 760 - 13 * index, key=whole)
    for index, line in enumerate(
        ["Its long-term effects and the short-", "term costs differ; long-term and", "short-term views were heard."]
    ):
        sheet.text(line, 70, 690 - 13 * index)
    return sheet.build()


def running_lines(pages: int = 6) -> Sample:
    sheet = Sheet(f"running_lines_{pages}")
    for page in range(1, pages + 1):
        if page > 1:
            sheet.next_page()
        sheet.text("Annual Report of the Harbour Board", 70, 805, size=8)
        sheet.text(f"Page {page} of {pages}", 280, 30, size=8)
        body(sheet, page * 100, 70, 760, 440)
    return sheet.build()


def headings() -> Sample:
    sheet = Sheet("headings")
    sheet.known("The Harbour Study", 70, 780, "Helvetica-Bold", 22)
    y = 740.0
    number = 200
    for title, size in (
        ("1 Introduction", 15),
        ("1.1 Purpose", 12),
        ("1.2 Method", 12),
        ("2 Results", 15),
        ("2.1 Ablation", 12),
    ):
        sheet.known(title, 70, y, "Helvetica-Bold", size)
        y = body(sheet, number, 70, y - 20, 440, 1) - 18
        number += 10
    return sheet.build()


def over_the_page() -> Sample:
    """A sentence that begins on page 1 and ends on page 2: a box on each."""
    sheet = Sheet("over_the_page")
    body(sheet, 300, 70, 760, 440, 2)
    first = "This sentence begins at the very end of the first page of the document and goes on to its"
    second = "end at the top of the second page."
    whole = f"{first} {second}"
    sheet.text(first, 70, 70, key=whole, size=10.6)
    sheet.next_page()
    sheet.text(second, 70, 770, key=whole, size=10.6)
    body(sheet, 320, 70, 740, 440, 2)
    return sheet.build()


def mixed_views() -> Sample:
    views = [
        View((0, 0, 595, 842), 0),
        View((40, 60, 560, 800), 90),
        View((0, 0, 595, 842), 180),
        View((-30, -40, 595, 842), 270),
    ]
    sheet = Sheet("mixed_views", views=views)
    for page in range(4):
        if page:
            sheet.next_page()
        body(sheet, 400 + 20 * page, 80, 740, 420)
    return sheet.build()


def list_and_code() -> Sample:
    sheet = Sheet("list_and_code")
    sheet.paragraph([sentence(500, 12), sentence(501, 12)], 70, 770, 440)
    for index in range(4):
        sheet.text("•", 80, 720 - 14 * index)
        sheet.known(f"Bring the {WORDS[index]} and the {WORDS[index + 9]}", 92, 720 - 14 * index)
    sheet.paragraph([sentence(502, 12)], 70, 645, 440)
    for index, line in enumerate(["def total(values):", "    result = sum(values)", "    return result"]):
        indent = len(line) - len(line.lstrip())
        sheet.text(line.strip(), 80 + 5.4 * indent, 600 - 12 * index, "Courier", 9)
    return sheet.build()


def samples() -> list[Sample]:
    """All of them: thirty and a few."""
    return [
        plain("Helvetica", 10), plain("Times-Roman", 11), plain("Courier", 9), plain("Helvetica", 18),
        rotated(90), rotated(180), rotated(270),
        rotated_upright(90), rotated_upright(180), rotated_upright(270), sideways(),
        cropped(), cropped(90), cropped(270), negative_origin(), negative_origin(90), negative_origin(180),
        two_columns("plain"), two_columns("mixed"), two_columns("rowwise"), three_columns(),
        table(ruled=True, pages=1), table(ruled=True, pages=3),
        table(ruled=False, pages=1), table(ruled=False, pages=3),
        cjk("japanese", "HeiseiMin-W3", _JAPANESE), cjk("chinese", "STSong-Light", _CHINESE), korean(),
        hyphenated(), running_lines(), headings(), over_the_page(), mixed_views(), list_and_code(),
    ]  # fmt: skip


Box5 = tuple[int, float, float, float, float]


def overlap(found: list[Box5], truth: list[Box5]) -> float:
    """Intersection over union of two sets of boxes (page, left, top, right, bottom), summed over pages."""
    common = 0.0
    for one in found:
        for other in truth:
            width = min(one[3], other[3]) - max(one[1], other[1])
            height = min(one[4], other[4]) - max(one[2], other[2])
            if one[0] == other[0] and width > 0 and height > 0:
                common += width * height
    total = sum((b[3] - b[1]) * (b[4] - b[2]) for b in (*found, *truth))
    return common / (total - common) if total > common else 0.0
