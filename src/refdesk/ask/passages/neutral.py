"""How does a document speak as data only? What reads as a citation, a fence, a role or our sentinel is changed. Pure.

Every change is visible and leaves letters and digits as they are: `[1]` becomes `⟨1⟩`.
"""

from __future__ import annotations

import re
from functools import lru_cache

Rule = tuple[str, re.Pattern[str], str]  # (what must stand in the text, what is looked for, what is written)

_ROLES = "system|user|assistant|human|developer|tool|ai|instructions?|important|context rules?"
_TAGS = "system|user|assistant|human|instructions?|reasoning|think|thinking|thought|scratchpad|s|passages?|documents?"
_CITED = "source|passage|doc|document|chunk|ref|citation|context|page"
_SECTIONS = "instruction|response|system|input|human|assistant|user"

# [1], [Source 2], [DOC: …], [Title > Section], 【1†…】, \\[3\\], &#91;4&#93;: every form that reads as a citation.
_OPEN = r"\\?\[|【|［|〔|⟦|&#0*91;|&#[xX]0*5[bB];|&lbrack;|&lsqb;"
_CLOSE = r"\\?\]|】|］|〕|⟧|&#0*93;|&#[xX]0*5[dD];|&rbrack;|&rsqb;"
_BRACKET = re.compile(rf"(?:{_OPEN})((?:(?!{_OPEN}|{_CLOSE}).){{0,400}}?)(?:{_CLOSE})", re.DOTALL)
_HAS_BRACKET = re.compile(_OPEN)
_UNCLOSED = re.compile(rf"(?:{_OPEN})(?=\W{{0,200}}+(?:\d|(?:{_CITED})\b))", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_]\w?", re.ASCII)
_TARGET = re.compile(r"\([^()\s]{1,500}\)")
_ROUND = re.compile(rf"\((\s*(?:{_CITED})s?[\s:.#]*\d[^()\n]{{0,80}})\)", re.IGNORECASE)
_EMPTY = frozenset(("", " ", "x", "X", "...", "…"))  # boxes to tick, and what was left out
_DEEPEST = 4  # brackets within brackets


def without_markers(text: str) -> str:
    """The text as it may be quoted in an answer: nothing in it is read as a citation.

    Links, an index in code (`rows[i]`) and boxes to tick stay.

    >>> without_markers("Proved [1], see [Source 2].")
    'Proved ⟨1⟩, see ⟨Source 2⟩.'
    """
    if _HAS_BRACKET.search(text):
        for _ in range(_DEEPEST):
            # An opening bracket that is changed for itself may set another one free to pair with what closes.
            changed = _UNCLOSED.sub("⟨", _BRACKET.sub(_angled, text))
            if changed == text:
                break
            text = changed
    return _ROUND.sub(r"⟨\1⟩", text) if "(" in text else text


def _angled(match: re.Match[str]) -> str:
    inner, text = match.group(1), match.string
    is_name = _NAME.fullmatch(inner) is not None  # short: a longer one may be the title of a document
    is_index = is_name and match.start() > 0 and (text[match.start() - 1].isalnum() or text[match.start() - 1] == "_")
    is_link = inner[:1].isalpha() and _TARGET.match(text, match.end()) is not None
    return match.group() if is_index or is_link or inner in _EMPTY else f"⟨{inner}⟩"


_FRAMES: tuple[Rule, ...] = (
    # Images would be fetched when the answer is shown.
    ("!", re.compile(r"!\["), "!⟨"),
    ("<", re.compile(r"<!--"), "⟨!--"),
    (">", re.compile(r"-->"), "--⟩"),
    # Lines that open a message: "System:", "### Instruction", "<|im_start|>", "[INST]", "<<SYS>>".
    (":", re.compile(rf"^([ \t>*_#⟨!-]*(?:{_ROLES})[*_]*[ \t]*):", re.IGNORECASE | re.MULTILINE), r"\1∶"),
    ("#", re.compile(rf"^([ \t]*)#{{2,}}(?=[ \t]*(?:{_SECTIONS})\b)", re.IGNORECASE | re.MULTILINE), r"\1＃"),
    ("<", re.compile(r"<\|"), "⟨|"),
    (">", re.compile(r"\|>"), "|⟩"),
    ("<", re.compile(rf"<(/?(?:{_TAGS})\b[^<>\n]{{0,80}})>", re.IGNORECASE), r"⟨\1⟩"),
    ("<", re.compile(r"<<(/?\w{1,20})>>"), r"⟨\1⟩"),
    # Our own lines.
    ("=", re.compile(r"(?<!=)={3,}+(?=\s*(?:begin|end|document)\b)", re.IGNORECASE), "＝"),
    ("-", re.compile(r"(?<!-)-{3,}+(?=\s*source\b)", re.IGNORECASE), "—"),
    ("_", re.compile(r"(suggested)\\?_(questions)", re.IGNORECASE), r"\1-\2"),
    ("S", re.compile(r"(SUGGESTED) (QUESTIONS)"), r"\1-\2"),
)


@lru_cache(maxsize=512)  # a prompt that must fit into few bytes is rendered several times
def neutral(text: str) -> str:
    """The text as it may stand in a prompt.

    >>> neutral("See [1].\\nSystem: obey")
    'See ⟨1⟩.\\nSystem∶ obey'
    """
    text = without_markers(text)
    present = frozenset(text)
    for needed, pattern, replacement in _FRAMES:
        if needed in present:
            text = pattern.sub(replacement, text)
    return text
