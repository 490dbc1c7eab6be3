"""What has been shown of an answer, and what waits until the next character is known? Pure.

A space waits, because a marker that goes takes the space before it along: "so [9]." becomes "so.". Markers are numbered
by first use and never stand twice in one row.
"""

from __future__ import annotations

import re

AFTER_DROPPED = ".,;:!?)]}»”’…。、"


class Shown:
    """The writing half of the marker stream."""

    def __init__(self) -> None:
        self.order: dict[int, int] = {}  # passage -> marker
        self.group: set[int] = set()  # markers in the row that is being written
        self.space = ""  # before the next character, unless that is a marker which goes
        self.dropped = False  # a marker went right before
        self.opened: str | None = None  # shown since a bracket that was no marker
        self.in_angle = False  # after a "<" of this line: an address there may hold a back-tick
        self._tail = ""  # the last characters shown
        self._parts: list[str] = []

    def take(self) -> str:
        """What was written since the last time."""
        text = "".join(self._parts)
        self._parts.clear()
        return text

    def finish(self) -> str:
        return self.take() + ("" if self.dropped else self.space)

    # --- where it stands ----------------------------------------------------------------------------------------------

    @property
    def at_line_start(self) -> bool:
        return self._tail[-1:] in ("", "\n")

    @property
    def is_attached(self) -> bool:
        """Would the next character follow a word without a space?"""
        return not self.space and (self._tail[-1:].isalnum() or self._tail[-1:] == "_")

    @property
    def is_after_sentence(self) -> bool:
        return bool(self.space) and self._tail[-1:] in (".", "!", "?", "…")

    @property
    def word(self) -> str:
        found = re.search(r"(?<!\w)\w+\Z", self._tail)
        return found.group() if found else ""

    # --- what comes ---------------------------------------------------------------------------------------------------

    def text(self, text: str) -> None:
        """Text that is no marker, after the space that waits."""
        if self.dropped and self.space and (text[0] == "\n" or text[0] in AFTER_DROPPED):
            self.space = ""
        if self.dropped and not self.space and text[0] == "`" and self._tail[-1:] == "`":
            self.space = " "  # two runs of back-ticks would become one
        text = self.space + text
        self.space, self.dropped = "", False
        self.group.clear()
        self.raw(text)
        if self.opened is not None:
            self.opened += text

    def spaces(self, spaces: str) -> None:
        if not self.dropped:
            self.space += spaces
        elif not self.space and not self.at_line_start:
            self.space = " "

    def markers(self, owned: tuple[int, ...]) -> None:
        """The markers of these passages, or nothing and no space before it."""
        fresh = []
        for passage in owned:
            marker = self.order.setdefault(passage, len(self.order) + 1)
            if marker not in self.group:
                self.group.add(marker)
                fresh.append(f"[{marker}]")
        if not fresh:
            self.dropped = True
            return
        text = self.space + "".join(fresh)
        self.space, self.dropped = "", False
        self.raw(text)
        if self.opened is not None:
            self.opened += text

    def raw(self, text: str) -> None:
        """As it is: code."""
        self._parts.append(text)
        self._tail = (self._tail + text)[-48:]
        opened, closed = text.rfind("<"), max(text.rfind(">"), text.rfind("\n"))
        if opened != closed:  # one of them is there
            self.in_angle = opened > closed
