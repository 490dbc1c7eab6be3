"""Which things does a text speak of? Noun phrases by their borders: no model, no part-of-speech tags. Pure.

>>> [one.text for one in phrases("What benefits does Red Hat OpenShift offer for batch jobs?")]
['benefits', 'Red Hat OpenShift', 'batch jobs']
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from refdesk.terms import QUERY_STOP_WORDS, terms
from refdesk.text import STOP_WORDS

LONGEST = 6  # words; a longer run is a heading or a list

_WORD = re.compile(r"[^\W_](?:[\w&+#]|[-./’'](?=\w))*|[^\w\s]")
# Common verbs, adverbs and adjectives of questions: they end a noun phrase.
_VERBS = """
    accept accepted add added affect affected afford agree allow allowed allows answer apply applied appear arrive ask asked avoid
    become became become begin began behave belong bring brought build built buy bought call called came cancel cause caused causes
    change changed changes check choose chose clarify clean come comes compare compared complete consider considered contain contains
    continue convert create created cure cut deal decide decided define defined delete deleted depend depends describe described determine
    develop developed die died differ discover do does doing done draw drive eat elaborate enable encourage end ended ensure enter exist exists expect
    explain fail fall feel fell file fill find finish fit fix follow followed follows found gave get gets getting give given gives go goes going gone
    got grew grow handle happen happened happens hear help helped helps hold improve include included includes increase increased
    install installed invent invented involve involved join joined keep kept knew know known last lead leave led left let like list
    listen live lived look looking lose lost made make makes making manage manufacture mean means meant measure meet mention mentioned met
    move moved named need needed needs occur occurred offer offered offers open order organise outline own owned pass paid pay perform
    performed pick place play played plays prepare prevent produce produced produces protect prove provide provided provides publish published
    put raise ran reach read receive received recommend recommended reduce refer register release released rely remain remember remove
    replace replaced report require required requires result return run runs said save saw say says see seek seem seen sell send sent serve set
    show shows sign solve sound speak specify spend spent split start started stay stick stop stopped store suffer suggest suggested summarise
    summarize supply support supported supports suppose switch take taken takes talk talked taught teach tell tells think thought throw
    told took travel treat tried try trying turn understand update updated use used uses using vary visit vote want wanted wants was
    watch went win won wonder wondering work worked works worn worth write written wrote yield
"""
_OTHERS = """
    able about accordingly across actually after ago ahead almost alone along already also although always among amount another anybody anymore anyone anything
    anyway approximately around available away back bad basically because before behind below besides best better between beyond big bit certain
    clear clearly common commonly currently different directly due early easily easy either else enough especially etc even ever every
    everybody everyone everything exact exactly except famous far fast few fewer finally fine first following former fully further
    generally good great greater hard hello here hi high higher however important instead interesting its itself just kind kinds large
    larger largest lastly late later latest latter least less likely little long longer longest lot lots low lower lowest main mainly major many maybe
    might more most mostly much must near nearly necessary never new newer next nice nobody none normally nothing now often ok okay old older once
    one ones only onto other others otherwise overall particular people perhaps per person please possible possibly probably properly quick quickly quite
    rather ready real really recently regarding relevant right same second several shall short should similar similarly simply since single small smaller
    so some somebody someone something sometimes somewhat soon sort sorts specific specifically still straight successful such suddenly sure than thank thanks
    therefore thing things third though through thus together tomorrow too top totally towards true twice type types typical typically
    under unless unlike until upon useful usual usually various very via way ways well whatever whenever whereas wherever whether
    while whole whose wide within without wrong yes yesterday yet
"""
BREAKS = frozenset(_VERBS.split()) | frozenset(_OTHERS.split()) | STOP_WORDS | QUERY_STOP_WORDS
# Nouns of asking: they say what is wanted of a thing, and are no thing to come back to.
ASKING = frozenset(
    """
    advantage advantages answer area areas aspect aspects basis benefit benefits case cases cause causes chance cost costs date day days
    definition degree description detail details difference differences disadvantage disadvantages drawback drawbacks effect effects example examples fact facts factor factors
    feature features form function goal history hour hours idea impact importance information issue issues kind level limit limits list
    look main meaning method methods minute minutes name names number numbers option options order origin overview part parts percentage period point points price
    prices problem problems process pros cons purpose question questions reason reasons recommendation recommendations relation requirement requirements result results role rule
    rules sense sign signs similarities size sizes source sources stage status step steps subject summary symptom symptoms term terms time times tip tips
    today tool tools topic topics total treatment treatments type types use uses value way ways week weeks year years solution solutions month months
    """.split()
)
_INSIDE_NAMES = frozenset(["of", "for", "the", "de", "la", "von", "van", "and", "&"])


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase; `is_name` when it holds a capital that no sentence begins with, or a code."""

    text: str
    start: int
    end: int
    is_name: bool

    @property
    def stems(self) -> frozenset[str]:
        return _stems(self.text)


@lru_cache(maxsize=4096)
def _stems(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def phrases(text: str) -> list[Phrase]:
    """Noun phrases in their order, without articles."""
    found: list[Phrase] = []
    run: list[re.Match[str]] = []
    is_first = True
    tokens = list(_WORD.finditer(text))
    firsts = set()
    for place, token in enumerate(tokens):
        word = token.group()
        if is_first and word[0].isalnum():
            firsts.add(place)
            is_first = False
        if word in ".?!:;\n":
            is_first = True
        before = run[-1].group() if run else ""
        joins = (
            word in _INSIDE_NAMES and (_is_name_word(before) or before in _INSIDE_NAMES) and _continues(tokens, place)
        )
        if joins or (word[0].isalnum() and (word.lower() not in BREAKS or _is_name_inside(word, place, firsts))):
            run.append(token)
        else:
            _close(text, run, tokens, firsts, found)
            run = []
    _close(text, run, tokens, firsts, found)
    return found


def _is_name_inside(word: str, place: int, firsts: set[int]) -> bool:
    """`Next` in "the Next shop": a capital that no sentence begins with."""
    return _is_name_word(word) and place not in firsts and word.lower() not in STOP_WORDS and word != "I"


def _continues(tokens: list[re.Match[str]], place: int) -> bool:
    rest = [one.group() for one in tokens[place + 1 : place + 3]]
    return bool(rest) and (
        _is_name_word(rest[0]) or (rest[0] in _INSIDE_NAMES and len(rest) > 1 and _is_name_word(rest[1]))
    )


def _is_name_word(word: str) -> bool:
    return bool(word) and (word[0].isupper() or any(letter.isdigit() or letter.isupper() for letter in word[1:]))


def _close(
    text: str, run: list[re.Match[str]], tokens: list[re.Match[str]], firsts: set[int], found: list[Phrase]
) -> None:
    if not run or len(run) > LONGEST:
        return
    places = {one.start(): place for place, one in enumerate(tokens)}
    named = [
        one
        for one in run
        if _is_name_word(one.group())
        and (places[one.start()] not in firsts or any(c.isdigit() or c.isupper() for c in one.group()[1:]))
    ]
    start, end = run[0].start(), run[-1].end()
    is_name = bool(named) or (len(run) > 1 and all(_is_name_word(one.group()) for one in run))
    found.append(Phrase(text[start:end], start, end, is_name))
