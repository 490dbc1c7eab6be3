"""The words of Rich Text: how they are told from the text, which say a character, and which begin what is not read."""

from __future__ import annotations

import re

TOKEN = re.compile(
    rb"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,10})? ?|\\'(?P<hex>[0-9a-fA-F]{2})|\\(?P<sign>[^a-zA-Z])"
    rb"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+|\\",
    re.S,
)

# Groups that are no part of the text, or say it a second time.
SKIPPED = frozenset(
    b"colortbl header headerl headerr headerf footer footerl footerr footerf ftnsep ftnsepc aftnsep aftnsepc pict xe "
    b"tc fldinst nonshppict shprslt sp objdata nonesttables mmath private1".split()
)
# Groups marked as skippable by readers who do not know them, which are known here.
KNOWN = frozenset(b"shpinst shptxt shpgrp nesttableprops pntext listtext footnote fldrslt".split())
WRITTEN = {
    b"tab": "\t", b"line": "\n", b"emdash": "—", b"endash": "–", b"lquote": "‘", b"rquote": "’", b"ldblquote": "“",
    b"rdblquote": "”", b"bullet": "•", b"emspace": " ", b"enspace": " ", b"qmspace": " ", b"~": " ", b"_": "-",
    b"\\": "\\", b"{": "{", b"}": "}",
}  # fmt: skip
CHARSETS = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "cp950", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
