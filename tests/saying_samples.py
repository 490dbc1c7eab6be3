"""Small documents of four formats whose lists, steps, tables and sections are asked for."""

from __future__ import annotations

from pathlib import Path

from docx import Document as WordDocument
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import ListFlowable, ListItem, Paragraph, SimpleDocTemplate

COFFEE = """# Brava 300 coffee machine: user guide

The Brava 300 grinds, brews and foams for up to twelve people a day. This guide is kept in the kitchen.

## What is in the box

The carton contains:

- the machine with its drip tray
- a water tank of 1.8 litres
- a milk jug
- a sachet of descaler

## Daily cleaning

Empty the drip tray and rinse the milk nozzle every evening. The tray may be washed in a dishwasher, the tank may not.

## Descaling

Descale the machine once every three months, or when the red drop lights up. It takes about 25 minutes.

1. Switch the machine off and let it cool for ten minutes.
2. Empty the water tank and take out the filter cartridge.
3. Pour one sachet of descaler into the tank. Fill it up with a litre of water.
4. Put a bowl of at least one litre under the spout.
5. Hold the cup button for five seconds until the red drop blinks.

Never use vinegar: it damages the seals.

## Models

| Model | Tank | Pressure | Price |
|---|---|---|---|
| Brava 200 | 1.2 l | 9 bar | 420 euros |
| Brava 300 | 1.8 l | 15 bar | 610 euros |
| Brava 500 | 3.0 l | 15 bar | 1,150 euros |

## Who looks after it

Mona Feldt orders beans and cartridges. The service contract ends on 30 June 2027. Guests may use the machine.
"""
NETWORK = """<!DOCTYPE html><html lang="en"><head><title>Network help</title></head><body><main><h1>Network help</h1>
<p>The helpdesk sits in room 114 and is open from 8:00 to 16:30.</p>
<h2>Connect to the VPN</h2><p>You need your badge and a telephone with the token app.</p>
<ol><li>Open the program Gatekeeper from the start menu.</li><li>Type your staff number and your password.</li>
<li>Enter the six digits that the token app shows.</li><li>Press Connect.</li></ol>
<p>The connection ends after twelve hours.</p>
<h2>Supported systems</h2><p>The VPN can be used with the following operating systems:</p>
<ul><li>Windows 11</li><li>macOS 14 and later</li><li>Ubuntu 24.04</li></ul><p>Tablets are not supported.</p>
<h2>Wired and wireless network</h2><p>The wired network reaches 2.5 gigabits a second and needs no password. The
wireless network Quay-Staff reaches 600 megabits a second and needs your staff number and password.</p>
</main></body></html>"""
PAPERS = [
    "a copy of the passport or identity card",
    "the signed contract of employment",
    "the number of a bank account",
    "proof of health insurance",
]
CHECKS = ["the tyres and the fork", "the brakes and the horn", "the lights", "the charge of the battery"]
BATTERY = [
    "Park the truck beside the roller table and pull the key.",
    "Put on gloves and goggles.",
    "Disconnect the plug of the battery.",
    "Roll in the charged battery and lock it.",
]


def write_samples(folder: Path) -> None:
    (folder / "coffee-machine.md").write_text(COFFEE, encoding="utf-8")
    (folder / "network-help.html").write_text(NETWORK, encoding="utf-8")
    _word(folder / "onboarding.docx")
    _pdf(folder / "forklift-safety.pdf")


def _word(path: Path) -> None:
    document = WordDocument()
    document.add_heading("Before the first day", 1)
    document.add_paragraph("The office manager prepares the workplace.")
    document.add_paragraph("New colleagues send the following documents to Human Resources:")
    for text in PAPERS:
        document.add_paragraph(text, style="List Bullet")
    document.add_paragraph("Documents that are missing are asked for after one week.")
    document.add_heading("Departments", 1)
    document.add_paragraph(
        "Holm Shipping has four departments: Chartering, Fleet Operations, Crewing and Finance. Each has a head, who "
        "reports to the managing director, Karen Holm."
    )
    document.add_heading("Probation", 1)
    document.add_paragraph("Probation lasts six months. After probation the notice is three months.")
    document.save(str(path))


def _pdf(path: Path) -> None:
    styles = getSampleStyleSheet()

    def listed(items: list[str], **kind: str) -> ListFlowable:
        return ListFlowable([ListItem(Paragraph(item, styles["BodyText"])) for item in items], **kind)

    story = [
        Paragraph("Forklift safety", styles["Title"]),
        Paragraph("Purpose", styles["Heading1"]),
        Paragraph(
            "This instruction protects drivers and everybody who walks in the warehouse. It was issued on 4 March 2024 "
            "by Piet Vos.",
            styles["BodyText"],
        ),
        Paragraph("Check before each shift", styles["Heading1"]),
        Paragraph("Before each shift the driver checks:", styles["BodyText"]),
        listed(CHECKS, bulletType="bullet", start="•"),
        Paragraph("Changing the battery", styles["Heading1"]),
        Paragraph("The battery weighs 900 kg and is only changed with the roller table.", styles["BodyText"]),
        listed(BATTERY, bulletType="1"),
        Paragraph("Speed", styles["Heading1"]),
        Paragraph(
            "The highest speed is 6 km/h inside and 12 km/h in the yard. Phones are forbidden while driving.",
            styles["BodyText"],
        ),
    ]
    SimpleDocTemplate(str(path), title="Forklift safety").build(story)
