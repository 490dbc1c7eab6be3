"""What each format gives: text in reading order, kinds, heading levels, header rows, pages, children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE

import format_samples as samples
from format_samples import header_of, headings, read, text_of, texts
from refdesk.errors import DocumentError
from refdesk.ingest.parse import parse
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.sheet_numbers import shown
from refdesk.parsers.sheets import find_delimiter

DATA = Path(os.environ.get("REFDESK_DATA", "../shared/data"))


class TestWord:
    def test_headings_pages_and_order(self) -> None:
        parsed = read(samples.word_document(), "renamed.pdf")
        assert parsed.format == "docx"
        assert parsed.title == "Annual report"
        assert headings(parsed) == [(1, "Annual report"), (1, "Results"), (2, "Ablation"), (1, "Outlook")]
        assert [page.label for page in parsed.pages] == ["Annual report", "Outlook"]
        order = ["Sales rose", "First step", "Region", "After the table.", "Merged header", "Inside a control."]
        places = [parsed.text.index(words) for words in order]
        assert places == sorted(places)

    def test_lists_are_numbered_and_indented(self) -> None:
        (listed,) = texts(read(samples.word_document()), "list")
        assert listed == "1. First step\n2. Second step\n- A point\n- A point below"

    def test_nested_table_stays_in_its_cell(self) -> None:
        parsed = read(samples.word_document())
        first = next(block for block in parsed.blocks if block.kind == "table")
        assert text_of(parsed, first) == "Region | Detail\nNorth | city, sales; Oslo, 12"
        assert header_of(parsed, first) == "Region | Detail"

    def test_merged_cell_is_read_once(self) -> None:
        assert texts(read(samples.word_document()), "table")[1].count("Merged header") == 1

    def test_tracked_changes_are_accepted_and_running_headers_left_out(self) -> None:
        parsed = read(samples.word_document())
        assert "The price is ten" in parsed.text
        assert "nine" not in parsed.text
        assert "RUNNING HEADER" not in parsed.text

    def test_picture_with_caption_is_a_figure(self) -> None:
        parsed = read(samples.word_document())
        (figure,) = [block for block in parsed.blocks if block.kind == "figure"]
        assert text_of(parsed, figure) == "Figure 1: Sales by region"
        assert figure.figure == 0
        assert parsed.figures[0].startswith(b"\x89PNG")
        assert parsed.text.count("Sales by region") == 1

    def test_footnote_and_text_box_follow_their_paragraph(self) -> None:
        assert texts(read(samples.word_with_notes()), "text") == [
            "Water boils at 100 degrees",
            "Footnote 1: At sea level.",
            "Beside it stands a box.",
            "Words in a box.",
        ]

    def test_headings_by_outline_level(self) -> None:
        document = docx.Document()
        document.add_paragraph("By level")._p.get_or_add_pPr().append(
            parse_xml(f'<w:outlineLvl {nsdecls("w")} w:val="2"/>')
        )
        document.add_paragraph("Text.")
        assert headings(read(samples.saved(document))) == [(3, "By level")]

    def test_contents_by_their_rising_page_numbers(self) -> None:
        document = docx.Document()
        for number, name in enumerate(("Aim", "Plan", "Cost", "Risk", "End")):
            document.add_paragraph(f"{name}\t{number * 3 + 1}")
        document.add_paragraph("Body.")
        document.add_paragraph("Total\t12")
        parsed = read(samples.saved(document))
        assert texts(parsed, "toc") == ["Aim … 1\nPlan … 4\nCost … 7\nRisk … 10\nEnd … 13"]
        assert texts(parsed, "text") == ["Body.", "Total … 12"]

    def test_strict_open_xml_is_read(self) -> None:
        usual = samples.word_with_notes()
        strict = usual
        for part in ("word/document.xml", "_rels/.rels", "word/_rels/document.xml.rels", "word/footnotes.xml"):
            content = samples.part_of(usual, part)
            for area in (b"wordprocessingml", b"officeDocument"):
                old = b"http://schemas.openxmlformats.org/" + area + b"/2006/"
                content = content.replace(old, b"http://purl.oclc.org/ooxml/" + area + b"/")
            strict = samples.with_part(strict, part, content)
        assert read(strict).text == read(usual).text


class TestSlides:
    def test_a_page_per_slide_with_its_title(self) -> None:
        parsed = read(samples.presentation())
        assert [page.label for page in parsed.pages] == ["Slide 1: Plan", "Slide 2: Costs", "Slide 3"]
        assert headings(parsed) == [(1, "Plan"), (1, "Costs")]

    def test_bullets_notes_tables_groups_and_charts(self) -> None:
        parsed = read(samples.presentation())
        assert texts(parsed, "list") == ["- Buy paper\n  - Recycled only"]
        assert "Notes: Mention the budget." in texts(parsed, "text")
        assert texts(parsed, "table") == ["item | price\npaper | 3", " | Sales\nEast | 19.2\nWest | 21.4"]
        assert parsed.text.index("left box") < parsed.text.index("right box")

    def test_a_placeholder_stands_where_its_layout_has_it(self) -> None:
        """Of two columns the left one is read first, whichever comes first in the file; neither says where it is."""
        show = pptx.Presentation()
        slide = show.slides.add_slide(show.slide_layouts[3])  # two contents side by side
        left, right = slide.placeholders[1], slide.placeholders[2]
        left.text_frame.text, right.text_frame.text = "in the left column", "in the right column"
        right._element.addnext(left._element)
        text = read(samples.saved(show)).text
        assert text.index("in the left column") < text.index("in the right column")

    @pytest.mark.parametrize(
        "kind", [XL_CHART_TYPE.LINE, XL_CHART_TYPE.PIE, XL_CHART_TYPE.THREE_D_COLUMN, XL_CHART_TYPE.BAR_STACKED]
    )
    def test_a_chart_of_any_kind_is_a_table(self, kind: XL_CHART_TYPE) -> None:
        show = pptx.Presentation()
        data = CategoryChartData()
        data.categories = ["East", "West", "North"]
        data.add_series("Sales", (19.2, None, 1e-7))
        kept = XL_CHART_TYPE.COLUMN_CLUSTERED if kind == XL_CHART_TYPE.THREE_D_COLUMN else kind
        frame = show.slides.add_slide(show.slide_layouts[6]).shapes.add_chart(kept, 0, 0, 9999, 9999, data)
        if kept != kind:  # python-pptx writes none in three dimensions
            (plot,) = frame.chart._chartSpace.xpath(".//c:barChart")
            plot.tag = plot.tag.replace("barChart", "bar3DChart")
        frame.chart.has_title = True
        frame.chart.chart_title.text_frame.text = "Sales by region"
        parsed = read(samples.saved(show))
        assert texts(parsed, "table") == [" | Sales\nEast | 19.2\nWest | \nNorth | 1e-07"]
        assert texts(parsed, "text") == ["Chart: Sales by region"]


class TestSheets:
    def test_tables_titles_and_numbers_as_displayed(self) -> None:
        parsed = read(samples.workbook())
        assert [page.label for page in parsed.pages] == ["Costs", "Far"]
        tables = [block for block in parsed.blocks if block.kind == "table"]
        assert text_of(parsed, tables[0]).split("\n") == [
            "region | item | price | share | since",
            "North | paper | $1,234.50 | 12.5% | 2024-03-01",
            "North | ink | -$7.00 | 50.0% | 2024-12-24",
        ]
        assert header_of(parsed, tables[0]) == "region | item | price | share | since"
        assert text_of(parsed, tables[1]) == "city | people\nOslo | 709,037"
        assert "Prices of 2024" in parsed.text
        assert text_of(parsed, tables[2]) == "name | value\nfirst | 1"

    def test_two_header_rows_and_a_gap_before_the_numbers(self) -> None:
        book = openpyxl.Workbook()
        sheet = book.active
        for row in (["In CHF", "2023", None], [None, "Sales", "Profit"], [], ["North", 5, 2], [], ["South", 7, 3]):
            sheet.append(row)
        sheet.merge_cells("B1:C1")
        parsed = read(samples.saved(book))
        (table,) = parsed.blocks
        assert header_of(parsed, table) == "In CHF | 2023 | \n | Sales | Profit"
        assert text_of(parsed, table).endswith("North | 5 | 2\nSouth | 7 | 3")

    def test_formula_without_a_stored_value_is_shown_itself(self) -> None:
        book = openpyxl.Workbook()
        book.active.append(["sum", "=A1+B1"])
        assert read(samples.saved(book)).text == "sum | =A1+B1"

    @pytest.mark.parametrize(
        ("value", "code", "expected"),
        [
            (0.125, "0.0%", "12.5%"),
            (1234.5, "$#,##0.00", "$1,234.50"),
            (-1234.5, "#,##0.00;(#,##0.00)", "(1,234.50)"),
            (-1234.5, '_("$"* #,##0.00_);_("$"* (#,##0.00);_("$"* "-"??_);_(@_)', "$(1,234.50)"),
            (0, '_("$"* #,##0.00_);_("$"* (#,##0.00);_("$"* "-"??_);_(@_)', "$-"),
            (1234.5, "#,##0.00 [$€-407]", "1,234.50 €"),
            (1234567, "#,##0,", "1,235"),
            (1.005, "0.00", "1.01"),
            (2.5, "0", "3"),
            (7, "000", "007"),
            (0.5, "#.##", ".5"),
            (12345, "0.00E+00", "1.23E+04"),
            (2.25, "# ?/?", "2.25"),
            (5, '0 "pcs"', "5 pcs"),
            (3, "General", "3"),
            (0.1 + 0.2, "General", "0.3"),
            (-4, "0;[Red]-0", "-4"),
            (45352, "yyyy-mm-dd", "2024-03-01"),
            (45352.75, "d mmm yyyy h:mm", "1 Mar 2024 18:00"),
            (45352.75, "h:mm AM/PM", "6:00 PM"),
            (45352.5, "dddd, mmmm d", "Friday, March 1"),
            (0.0625, "mm:ss", "30:00"),
            (1.5, "[h]:mm", "36:00"),
            (1e300, "#,##0", "1" + ",000" * 100),
        ],
    )
    def test_number_formats(self, value: float, code: str, expected: str) -> None:
        assert shown(value, code) == expected


class TestDelimited:
    @pytest.mark.parametrize(
        ("text", "delimiter"),
        [("a,b\n1,2", ","), ("a;b\n1,5;2,5", ";"), ("a\tb\n1\t2", "\t"), ("x|y\n1|2", "|"), ("one\ntwo", "\x1f")],
    )
    def test_delimiter(self, text: str, delimiter: str) -> None:
        assert find_delimiter(text) == delimiter

    def test_quoted_newlines_marks_and_header(self) -> None:
        parsed = read('\ufeffname,note\r\n"Smith, J.","two\r\nlines"\r\nLee,x\r\n'.encode(), "a.csv")
        (table,) = parsed.blocks
        assert parsed.text == "name | note\nSmith, J. | two lines\nLee | x"
        assert header_of(parsed, table) == "name | note"

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp932"])
    def test_encodings(self, encoding: str) -> None:
        text = "名前,年齢,住所\n佐藤太郎,30,東京\n三木英子,25,大阪\n"
        assert "佐藤太郎 | 30 | 東京" in read(text.encode(encoding), "a.csv").text

    def test_a_page_per_thousand_rows_each_with_the_header(self) -> None:
        rows = "".join(f"{number},item {number}\n" for number in range(2500))
        parsed = read(f"id,name\n{rows}".encode(), "a.csv")
        assert [page.label for page in parsed.pages] == ["Rows 1–1,000", "Rows 1,001–2,000", "Rows 2,001–2,500"]
        assert all(header_of(parsed, block) == "id | name" for block in parsed.blocks)


PAGE = """<!DOCTYPE html><html lang="de"><head><title>Preise &amp; Mehr</title>
<base href="https://example.org/docs/"><script>var hidden = 1</script></head><body>
<nav><a href="/">Home</a></nav><div class="cookie-banner">We use cookies</div>
<main><h1>Prices</h1><p>See the <a href="guide.html">guide</a>, the <a href="#top">top</a> and
<a href="https://other.example/x">another site</a>.</p>
<ul><li>paper<ul><li>recycled</li></ul></li><li><p>ink</p></li></ul>
<pre>if x:
    y()</pre>
<table><thead><tr><th>item</th><th>price</th></tr></thead>
<tr><td rowspan="2">paper</td><td>3</td></tr><tr><td>4</td></tr>
</table><dl><dt>Grade</dt><dd>A4</dd></dl></main>
<footer>Imprint</footer></body></html>"""


class TestHtml:
    def test_main_content_without_what_surrounds_it(self) -> None:
        parsed = read(PAGE.encode(), "a.html")
        assert parsed.title == "Preise & Mehr"
        assert parsed.metadata["language"] == "de"
        assert headings(parsed) == [(1, "Prices")]
        for words in ("Home", "cookies", "Imprint", "hidden"):
            assert words not in parsed.text

    def test_links_carry_their_full_address(self) -> None:
        assert texts(read(PAGE.encode(), "a.html"), "text")[0] == (
            "See the guide (https://example.org/docs/guide.html), the top and another site (https://other.example/x)."
        )

    def test_lists_code_tables_and_definitions(self) -> None:
        parsed = read(PAGE.encode(), "a.html")
        assert texts(parsed, "list") == ["- paper\n  - recycled\n- ink"]
        assert texts(parsed, "code") == ["if x:\n    y()"]
        (table,) = [block for block in parsed.blocks if block.kind == "table"]
        assert text_of(parsed, table) == "item | price\npaper | 3\npaper | 4"
        assert header_of(parsed, table) == "item | price"
        assert texts(parsed, "text")[-1] == "Grade: A4"

    def test_simple_page_keeps_all_its_text(self) -> None:
        parsed = read(b"<html><body><header>Top words</header>Loose text<p>One.</p>tail<br>x</body></html>")
        assert "Loose text" in parsed.text and "tail" in parsed.text
        assert "Top words" in read(b"<html><body><header><h1>Top words</h1></header><p>x</p></body></html>").text

    def test_short_article_beside_many_links(self) -> None:
        links = "".join(f"<li><a href='/{n}'>Link number {n}</a></li>" for n in range(200))
        article = "<p>" + "The contract ends in May, unless both sides agree to go on. " * 8 + "</p>"
        footer = f"<footer><ul>{links}</ul></footer>"
        page = f"<html><body><div><ul>{links}</ul></div><div>{article}</div>{footer}</body></html>"
        parsed = read(page.encode())
        assert "The contract ends in May" in parsed.text
        assert "Link number" not in parsed.text

    def test_page_of_links_keeps_them(self) -> None:
        links = "".join(f"<li><a href='https://x.example/{n}'>Place {n}</a></li>" for n in range(9))
        assert "Place 8 (https://x.example/8)" in read(f"<html><body><ul>{links}</ul></body></html>".encode()).text

    def test_filing_without_headings_gets_its_bold_lines(self) -> None:
        page = "<p><b>PART I</b></p><p><b>ITEM 1. BUSINESS</b></p><p>We sell paper.</p>"
        page += "<p><b>Growth</b></p><p>It grew.</p>"
        parsed = read(f"<html><body>{page}</body></html>".encode())
        assert headings(parsed) == [(1, "PART I"), (2, "ITEM 1. BUSINESS"), (3, "Growth")]

    def test_title_in_the_header_of_an_article_stays(self) -> None:
        article = "<article><header><h2>{}</h2></header><p>{}</p></article>"
        page = article.format("First", "Some words. " * 20) + article.format("Second", "Other words. " * 20)
        parsed = read(f"<html><body><header>Site name</header>{page}</body></html>".encode())
        assert headings(parsed) == [(2, "First"), (2, "Second")]
        assert "Site name" not in parsed.text

    def test_header_cells_down_the_side_are_no_header_row(self) -> None:
        rows = "<tr><th>Name</th><td>Ada</td></tr><tr><th>Born</th><td>1815</td></tr>"
        parsed = read(f"<html><body><table>{rows}</table></body></html>".encode())
        (table,) = parsed.blocks
        assert (text_of(parsed, table), table.header) == ("Name | Ada\nBorn | 1815", None)

    def test_layout_tables_are_taken_apart(self) -> None:
        page = "<table><tr><td><h1>News</h1><p>Text here.</p></td><td><table><tr><td>a</td><td>1</td></tr>"
        page += "<tr><td>b</td><td>2</td></tr></table></td></tr></table>"
        parsed = read(f"<html><body>{page}</body></html>".encode())
        assert headings(parsed) == [(1, "News")]
        assert texts(parsed, "table") == ["a | 1\nb | 2"]

    def test_signs_in_cells_of_their_own_go_back_to_their_number(self) -> None:
        page = "<table><tr><td></td><td>2021</td><td></td><td></td></tr>"
        page += "<tr><td>Loss</td><td>$</td><td>(5</td><td>)</td></tr>"
        page += "<tr><td>Gain</td><td></td><td>7</td><td></td></tr>"
        assert texts(read(f"<html><body>{page}</table></body></html>".encode()), "table") == [
            " | 2021\nLoss | $(5)\nGain | 7"
        ]

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252", "shift_jis"])
    def test_declared_encoding(self, encoding: str) -> None:
        words = "日本語のページ" if encoding == "shift_jis" else "Käse für Zoë"
        page = f'<html><head><meta charset="{encoding}"></head><body><p>{words}</p></body></html>'
        assert read(page.encode(encoding)).text == words

    def test_a_page_per_first_level_heading(self) -> None:
        parsed = read(b"<html><body><h1>A</h1><p>a</p><h2>AA</h2><p>b</p><h1>B</h1><p>c</p></body></html>")
        assert [(page.label, parsed.text[page.start : page.end].strip()) for page in parsed.pages] == [
            ("A", "A\n\na\n\nAA\n\nb"),
            ("B", "B\n\nc"),
        ]


MARKDOWN = """---
title: "The plan"
author: Ada
---
# Plan

Some *bold* [link](http://example.org) text
on two lines. <b>html</b>

1. one
   - deep
2. two

```python
x = 1
```

| a | b |
|---|---|
| 1 | 2 |
"""


class TestMarkdown:
    def test_blocks_and_front_matter(self) -> None:
        parsed = read(MARKDOWN.encode(), "a.md")
        assert (parsed.title, parsed.metadata["author"]) == ("The plan", "Ada")
        assert headings(parsed) == [(1, "Plan")]
        assert texts(parsed, "text") == ["Some bold link text on two lines. html"]
        assert texts(parsed, "list") == ["1. one\n  - deep\n2. two"]
        assert texts(parsed, "code") == ["x = 1"]
        assert texts(parsed, "table") == ["a | b\n1 | 2"]
        assert parsed.blocks[-1].header is not None


class TestPlainText:
    @pytest.mark.parametrize(
        ("encoding", "text"),
        [
            ("utf-8", "Grüße, 世界 🌍"),
            ("utf-8-sig", "Grüße"),
            ("utf-16", "Grüße, 世界"),
            ("utf-16-le", "plain words in two bytes"),
            ("utf-32", "Grüße"),
            ("cp1252", "Das Übermaß an Grüßen für Zoë"),
            ("cp1251", "Москва является столицей России, городом федерального значения и крупнейшим городом страны."),
            ("shift_jis", "これは日本語で書かれた文章です。東京は日本の首都であり、世界最大の都市の一つです。"),
            ("gbk", "这是一篇用中文写的文章。北京是中华人民共和国的首都,也是世界上人口最多的城市之一。"),
            ("iso2022_jp", "東京は日本の首都です。"),
            ("koi8_r", "Москва является столицей России, городом федерального значения и крупнейшим городом страны."),
            ("euc_kr", "서울은 대한민국의 수도이며 가장 큰 도시이다. 한강이 도시를 가로질러 흐른다."),
        ],
    )
    def test_any_encoding(self, encoding: str, text: str) -> None:
        assert read(text.encode(encoding), "a.txt").text == text

    def test_hard_wrapped_lines_are_joined_and_verse_is_not(self) -> None:
        prose = "The company was founded in the year 1901 by two\nbrothers who had come from the north of the\ncountry."
        verse = "Roses are red,\nViolets are blue,\nSugar is sweet"
        assert read(f"{prose}\n\n{verse}".encode(), "a.txt").text == prose.replace("\n", " ") + f"\n\n{verse}"

    def test_headings_only_where_there_is_no_doubt(self) -> None:
        parts = [
            "CHAPTER I",
            "It began.",
            "1.2 Methods",
            "We went.",
            "RESULTS AND MORE",
            "He left.",
            "Title\n=====",
            "End.",
        ]
        text = "\n\n".join(parts)
        parsed = read(text.encode(), "a.txt")
        assert headings(parsed) == [(1, "CHAPTER I"), (2, "1.2 Methods"), (2, "RESULTS AND MORE"), (1, "Title")]
        assert len(texts(parsed, "text")) == 4

    def test_org_headings_and_lists(self) -> None:
        parsed = read(b"* Plan\nSome text here\n** Step one\nmore\n\n* paper\n* ink\n", "a.org")
        assert headings(parsed) == [(1, "Plan"), (2, "Step one")]
        assert texts(parsed, "list") == ["* paper\n* ink"]

    def test_form_feeds_are_pages(self) -> None:
        parsed = read(b"first\x0csecond\n\nmore\x0c\x0cfourth\x0c", "a.txt")
        assert [parsed.text[page.start : page.end].strip() for page in parsed.pages] == [
            "first",
            "second\n\nmore",
            "",
            "fourth",
        ]

    def test_lists_and_structured_text_keep_their_lines(self) -> None:
        assert texts(read(b"Buy:\n\n- paper\n- ink\n", "a.txt"), "list") == ["- paper\n- ink"]
        assert texts(read(b'{"a": 1,\n "b": 2}', "a.json"), "code") == ['{"a": 1,\n "b": 2}']


class TestMail:
    def test_headers_body_and_metadata(self) -> None:
        parsed = read(samples.mail(), "a.eml")
        assert parsed.title == "Grüße aus Oslo"
        assert parsed.text.startswith("Subject: Grüße aus Oslo\nFrom: Ada <ada@example.org>\nTo: bob@example.org")
        assert parsed.text.endswith("the contract ends in May.")
        assert "HTML body" not in parsed.text
        assert parsed.metadata["date"] == "2022-12-16T22:04:16+00:00"

    def test_attachments_are_children(self) -> None:
        parsed = read(samples.mail(), "a.eml")
        assert [child.name for child in parsed.children] == ["prices.csv", "Old news.eml"]
        assert read(parsed.children[0].data, parsed.children[0].name).text == "name | price\npaper | 3"
        assert "Forwarded text." in read(parsed.children[1].data, parsed.children[1].name).text

    def test_html_only_and_wrong_encoding(self) -> None:
        head = b"From: a@b.c\nSubject: x\nContent-Type: text/html; charset=no-such-thing\n\n"
        assert texts(read(head + "<p>Käse</p><p>Two</p>".encode()), "text") == ["Käse", "Two"]

    def test_japanese_mail(self) -> None:
        head = b"From: a@b.c\nSubject: =?iso-2022-jp?B?GyRCRWw1fhsoQg==?=\nMIME-Version: 1.0\n"
        body = b"Content-Type: text/plain; charset=iso-2022-jp\n\n" + "東京は日本の首都です。".encode("iso2022_jp")
        parsed = read(head + body)
        assert parsed.title == "東京"
        assert parsed.text.endswith("東京は日本の首都です。")

    def test_mailbox_has_a_child_per_message(self) -> None:
        one = b"From a@b Mon Mar 17 2014\nFrom: a@b.c\nSubject: One\n\nfirst\n\n"
        parsed = read(one + one.replace(b"One", b"Two"))
        assert [child.name for child in parsed.children] == ["One.eml", "Two.eml"]


class TestEbook:
    def test_spine_order_pages_and_contents(self) -> None:
        parsed = read(samples.book())
        assert [page.label for page in parsed.pages] == ["Contents", "Snow", "Ice"]
        assert texts(parsed, "toc") == ["Snow\nIce"]
        assert parsed.title == "Winter"
        assert (parsed.metadata["author"], parsed.metadata["language"]) == ("E. Benson", "en")
        assert parsed.text.index("It fell all night.") < parsed.text.index("The lake froze.")


def test_reading_text_imports_no_office_library() -> None:
    program = (
        "import sys\nfrom refdesk.ingest.parse import parse\nfrom refdesk.parsers.build import ParseOptions\n"
        "parse(b'hello', 'a.txt', ParseOptions())\n"
        "late = ('openpyxl', 'docx', 'pptx', 'xlrd', 'olefile', 'charset_normalizer')\n"
        "print([name for name in late if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.skipif(not (DATA / "formats").is_dir(), reason="no folder of sample files (REFDESK_DATA)")
def test_every_file_of_the_sample_folder_is_read_or_refused_with_a_sentence() -> None:
    elsewhere = (".pdf", ".png", ".jpg", ".jpeg", ".tiff", ".heic", ".bmp")  # other tests read these
    seen = 0
    for path in sorted((DATA / "formats").rglob("*")):
        if not path.is_file() or path.suffix.lower() in elsewhere:
            continue
        try:
            parse(path.read_bytes(), path.name, ParseOptions()).text.encode()
        except DocumentError as error:
            assert "\n" not in error.sentence, path
        seen += 1
    assert seen > 200
