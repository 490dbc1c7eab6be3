"""The documents that are plain text: readings as CSV, a web page, a runbook, minutes in Latin-1, a Japanese report."""

from __future__ import annotations

import csv
import math
from datetime import datetime, timedelta
from io import StringIO

from makers.common import source_text

START = datetime(2025, 10, 20, 0, 0)
HOURS = 72
GAUGE = "0418"
MEAN_LEVEL, HALF_RANGE, PERIOD = 2.15, 1.3, 12.42  # m, m, hours: the range of 2.6 m that the report states
SURGE_HOUR, SURGE, SURGE_WIDTH = 33, 0.62, 5.0  # a storm passes on 21 October in the morning


def make_readings() -> bytes:
    """Hourly readings of one gauge, with a storm surge and three suspect values."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(["time_utc", "gauge", "water_level_m", "water_temperature_c", "battery_v", "wind_m_s", "quality"])
    for hour in range(HOURS):
        storm = math.exp(-(((hour - SURGE_HOUR) / SURGE_WIDTH) ** 2))
        level = MEAN_LEVEL + HALF_RANGE * math.cos(2 * math.pi * (hour - 8) / PERIOD) + SURGE * storm
        temperature = 10.8 - 0.01 * hour + 0.2 * math.cos(2 * math.pi * (hour - 15) / 24)
        wind = 6.5 + 14.2 * storm + (hour * 7 % 5) * 0.3
        quality = "suspect" if hour in (50, 51, 52) else "good"
        time = (START + timedelta(hours=hour)).strftime("%Y-%m-%d %H:%M")
        battery = 12.60 - 0.002 * hour
        writer.writerow([time, GAUGE, f"{level:.3f}", f"{temperature:.1f}", f"{battery:.2f}", f"{wind:.1f}", quality])
    return buffer.getvalue().encode("ascii")


def make_support_page() -> bytes:
    return source_text("tg4-support.html").encode()


def make_runbook() -> bytes:
    return source_text("telemetry-runbook.md").encode()


def make_minutes() -> bytes:
    """Latin-1 with Windows line ends, as older German office programs write it."""
    return source_text("protokoll-cuxhaven.txt").replace("\n", "\r\n").encode("latin-1")


def make_maintenance_report() -> bytes:
    return source_text("kitahama-maintenance.txt").encode()
