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

# The words of asking: which of them end a noun phrase, and which say only what is wanted of a thing.


def word_set(text: str) -> frozenset[str]:
    """`"do does did"` -> {do, does, did}."""
    return frozenset(text.split())


# Common verbs, adverbs and adjectives of questions: they end a noun phrase.
_VERBS = """
    accept accepted add added affect affected afford agree allow allowed allows answer appear applied apply arrive ask
    asked avoid became become began begin behave belong bought bring brought build built buy call called came cancel
    cause caused causes change changed changes check choose chose clarify clean come comes compare compared complete
    consider considered contain contains continue convert create created cure cut deal decide decided define defined
    delete deleted depend depends describe described determine develop developed die died differ discover do does
    doing done draw drive eat elaborate enable encourage end ended ensure enter exist exists expect explain fail fall
    feel fell file fill find finish fit fix follow followed follows found gave get gets getting give given gives go
    goes going gone got grew grow handle happen happened happens hear help helped helps hold improve include included
    includes increase increased install installed invent invented involve involved join joined keep kept knew know
    known last lead leave led left let like list listen live lived look looking lose lost made make makes making
    manage manufacture mean means meant measure meet mention mentioned met move moved named need needed needs occur
    occurred offer offered offers open order organise outline own owned paid pass pay perform performed pick place
    play played plays prepare prevent produce produced produces protect prove provide provided provides publish
    published put raise ran reach read receive received recommend recommended reduce refer register release released
    rely remain remember remove replace replaced report require required requires result return run runs said save saw
    say says see seek seem seen sell send sent serve set show shows sign solve sound speak specify spend spent split
    start started stay stick stop stopped store suffer suggest suggested summarise summarize supply support supported
    supports suppose switch take taken takes talk talked taught teach tell tells think thought throw told took travel
    treat tried try trying turn understand update updated use used uses using vary visit vote want wanted wants was
    watch went win won wonder wondering work worked works worn worth write written wrote yield
"""
_OTHERS = """
    able about accordingly across actually after ago ahead almost alone along already also although always among
    amount another anybody anymore anyone anything anyway approximately around available average away back bad
    basically because before behind below besides best better between beyond big bit certain cheap clear clearly cold
    common commonly currently dangerous deep different directly due early easily easy either else enough especially
    etc even ever every everybody everyone everything exact exactly except expensive famous far fast few fewer finally
    fine first following former fully further generally good great greater hard heavy hello here hi high higher hot
    however important instead interesting its itself just kind kinds large larger largest lastly late later latest
    latter least less likely little long longer longest lot lots low lower lowest main mainly major many maximum maybe
    might minimum modern more most mostly much must near nearly necessary never new newer next nice nobody none
    normally nothing now often ok okay old older once one ones only onto other others otherwise overall particular
    people per perhaps person please popular possible possibly probably properly quick quickly quite rather ready real
    really recently regarding relevant right safe same second several shall short should similar similarly simply
    since single small smaller so some somebody someone something sometimes somewhat soon sort sorts specific
    specifically still straight strong successful such suddenly sure tall than thank thanks therefore thick thin thing
    things third though through thus together tomorrow too top totally towards true twice type types typical typically
    under unless unlike until upon useful usual usually various very via warm way ways weak well whatever whenever
    whereas wherever whether while whole whose wide within without wrong yes yesterday yet
"""
BREAKS = word_set(_VERBS) | word_set(_OTHERS) | STOP_WORDS | QUERY_STOP_WORDS
# Nouns of asking: they say what is wanted of a thing, and are no thing to come back to.
ASKING = word_set(
    """
    advantage advantages afternoon answer area areas article aspect aspects basis benefit benefits book case cases
    cause causes chance cons cost costs country date day days definition degree description detail details difference
    differences disadvantage disadvantages document drawback drawbacks effect effects evening example examples fact
    factor factors facts feature features form function goal history hour hours idea impact importance information
    issue issues kind level limit limits list look main meaning method methods minute minutes month months morning
    name names night number numbers option options order origin overview page part parts people percentage period
    place places point points price prices problem problems process pros purpose question questions reason reasons
    recommendation recommendations region relation requirement requirements result results role rule rules section
    sense show sign signs similarities size sizes solution solutions source sources stage status step steps subject
    summary symptom symptoms term terms text time times tip tips today tool tools topic topics total treatment
    treatments type types use uses value way ways week weekend weeks world year years
    """
)
# Verbs that are nouns after an article: "the file size".
NOUN_OR_VERB = word_set(
    """
    answer call cause change check cut deal drive end fall file fit help hold increase lead list look move need offer
    order pass pay place play raise release report result return run save set show sign sound start store supply
    support switch talk travel turn update use visit vote watch win work yield
    """
)
# What people write without its apostrophe; near other words, and meant.
CONTRACTIONS = word_set(
    """
    arent cant couldnt didnt doesnt dont hadnt hasnt havent hows isnt ive shouldnt thats theres theyre theyve wasnt
    werent whats whens wheres whos whys wont wouldnt youre youve
    """
)


LONGEST = 8  # words; a longer run is a heading or a list

_WORD = re.compile(r"[^\W_](?:[\w&+#]|[-./](?=\w)|['’](?=[A-Z]|t\b))*|['’]s\b|[^\w\s]")
_INSIDE_NAMES = frozenset(["of", "for", "the", "de", "la", "von", "van", "and", "&"])
# The word after one of these is a verb: "to explore Jupiter", "can I purchase plans".
_BEFORE_VERBS = word_set("to i we you they he she can could will would should may might must please let's not")
_AUXILIARIES = word_set("do does did is are was were has have had")
_ARTICLES = frozenset(["the", "a", "an"])
_OWNERS = _ARTICLES | word_set("my your our its their his her of 's this these those any no")
_NAMED_BY_BEING = word_set("what who which where what's who's")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase; `is_name` when it holds a capital that no sentence begins with, or a code."""

    text: str
    start: int
    end: int
    is_name: bool
    article: str = ""  # the, a, an
    after: str = ""  # the word before it and its article: "about", "of"

    @property
    def stems(self) -> frozenset[str]:
        return _stems(self.text)


@lru_cache(maxsize=4096)
def _stems(text: str) -> frozenset[str]:
    return frozenset(terms(text))


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int
    is_first: bool  # of its sentence

    @property
    def is_name(self) -> bool:
        """A capital or digit that a sentence's beginning does not explain."""
        inner = any(letter.isdigit() or letter.isupper() for letter in self.text[1:])
        return inner or self.text[0].isdigit() or (self.text[0].isupper() and not self.is_first)

    @property
    def may_be_name(self) -> bool:
        return self.is_name or self.text[0].isupper()


@lru_cache(maxsize=512)
def phrases(text: str) -> tuple[Phrase, ...]:
    """Noun phrases in their order, without articles."""
    tokens = _tokens(text)
    found: list[Phrase] = []
    run: list[int] = []
    for place in range(len(tokens) + 1):
        if place < len(tokens) and _belongs(tokens, place, run):
            run.append(place)
        else:
            found += _closed(text, tokens, run)
            run = []
            if place < len(tokens) and _belongs(tokens, place, run):  # after a possessive the next phrase begins
                run = [place]
    return tuple(found)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    is_first = True
    for one in _WORD.finditer(text):
        found.append(_Token(one.group(), one.start(), one.end(), is_first and one.group()[0].isalnum()))
        is_first = one.group() in ".?!:;" or (is_first and not one.group()[0].isalnum())
    return found


def _belongs(tokens: list[_Token], place: int, run: list[int]) -> bool:
    token = tokens[place]
    lowered = token.text.lower()
    if token.text in ("'s", "’s"):
        return bool(run) and place + 1 < len(tokens) and _belongs(tokens, place + 1, [])
    if not token.text[0].isalnum():
        return False
    if token.text in _INSIDE_NAMES and run:
        last, rest = tokens[run[-1]], tokens[place + 1 : place + 3]
        goes_on = any(one.may_be_name for one in rest) and (rest[0].may_be_name or rest[0].text in _INSIDE_NAMES)
        return goes_on and (last.may_be_name or last.text in _INSIDE_NAMES)
    if token.is_name and lowered not in STOP_WORDS and token.text != "I":
        return True
    before = tokens[place - 1].text.lower() if place else ""
    if lowered in NOUN_OR_VERB:
        return before in _OWNERS or (bool(run) and run[0] > 0 and tokens[run[0] - 1].text.lower() in _OWNERS)
    return lowered not in BREAKS and (before not in _BEFORE_VERBS or token.may_be_name)


def _closed(text: str, tokens: list[_Token], run: list[int]) -> list[Phrase]:
    while run and tokens[run[-1]].text in _INSIDE_NAMES:
        run = run[:-1]
    if not run or len(run) > LONGEST:
        return []
    first = run[0]
    article = tokens[first - 1].text.lower() if first and tokens[first - 1].text.lower() in _ARTICLES else ""
    place = first - (2 if article else 1)
    before = tokens[place].text.lower() if place >= 0 else ""
    named = [place for place in run if tokens[place].is_name]
    is_name = bool(named) or (len(run) > 1 and all(tokens[place].may_be_name for place in run))
    if len(run) > 1 and _is_predicate(tokens, before, run[-1], is_name=is_name):
        run = run[:-1]
    start, end = tokens[run[0]].start, tokens[run[-1]].end
    return [Phrase(text[start:end], start, end, is_name, article, before)]


def _is_predicate(tokens: list[_Token], before: str, last: int, *, is_name: bool) -> bool:
    """Whether the last word says something of the others: "did Zappa disband", "the rooms designated"."""
    word = tokens[last]
    if word.may_be_name:
        return False
    if word.text.endswith("ed"):
        return True
    opening = [token.text.lower() for token in tokens[:2]]
    asks_what_it_is = opening[0] in _NAMED_BY_BEING or (opening[0] == "how" and opening[-1] not in _AUXILIARIES)
    return is_name and (before in ("do", "does", "did") or (before in _AUXILIARIES and not asks_what_it_is))


# What did somebody mean who corrected himself while asking? Dictated questions hold "um" and "no, sorry, …".

_FILLER = re.compile(r"(?:^|(?<=\s))(?:um+|uh+|er+|erm+|hm+)[,.…]*(?=\s|$)\s*", re.IGNORECASE)
_HM = r"(?:um+|uh+|er+|erm+|hm+)"
_OR = (
    r"(?:no|sorry|wait|i mean(?:t)?|i should say|rather|actually|make that|scratch that|not that|excuse me|my bad"
    r"|better)"
)
# Only phrases that hardly mean anything else: "actually" or "rather" alone may be part of the question.
_SLIP = re.compile(
    rf"(?<![\s,;:.–—-])[\s,;:.–—-]+(?:no[\s,]+{_OR}|wait[\s,]+(?:no|my bad)|oh[\s,]+no|oops|sorry"
    rf"|or[\s,]+{_OR}|or[\s,]+{_HM}|actually[\s,]+no"
    rf"|{_HM}[\s,]+(?:{_OR}|like)|{_HM}[\s,]+(?=(?:wh\w+|how)\b)|i mean(?:t)?(?: to say)?|make that|scratch that"
    rf"|let me rephrase)(?:[\s,]+(?:{_OR}|instead|{_HM}))*[\s,;:–—-]+",
    re.IGNORECASE,
)
_OPENING = """
    what which who whom whose when where why how is are was were do does did can could would will should has have had in
    of to for at on by from
"""
_OPENERS = frozenset(_OPENING.split())
SHORT_TAIL = 5  # words said wrong, at most, when what follows goes on with the sentence


def fluent(text: str) -> str:
    """The question as it was meant; one without slips is given back unchanged."""
    found = text
    for _ in range(3):  # a slip within a slip
        slip = _SLIP.search(found)
        if slip is None or not slip.start():
            break
        before, after = found[: slip.start()].rstrip(" ,;:–—-"), found[slip.end() :].lstrip(" ,;:–—-")
        if not after.strip(" ?!."):
            break
        found = _mended(before, after)
    found = _FILLER.sub("", found)
    return found[:1].upper() + found[1:] if found != text else text


def _mended(before: str, after: str) -> str:
    said, meant = before.split(), after.split()
    opener = meant[0].lower()
    if opener in _OPENERS and len(meant) > 3 and _is_question(meant):
        return after  # begun anew
    place = _last(said, opener)
    if place is not None and len(said) - place <= SHORT_TAIL:
        return " ".join([*said[:place], *meant])  # "the Germans no sorry the French invade"
    if place is not None:  # said at the end: put where it belongs
        tail = meant[-1].rstrip("?!.")
        rest = said[place + len(meant) :]
        return " ".join([*said[:place], *meant[:-1], tail, *rest]).rstrip("?!.") + "?"
    named = [one for one in phrases(before) if one.end >= len(before) - 1]
    if named:  # "rock samples or rather electron microprobes": the last thing named was wrong
        return f"{before[: named[-1].start]}{after}"
    return " ".join([*said[:-1], *meant])


def _is_question(meant: list[str]) -> bool:
    """Begins with a question word, or with one after another word: "in which", "did when"."""
    return any(word.lower().startswith(("wh", "how")) for word in meant[:2])


def _last(said: list[str], word: str) -> int | None:
    places = [place for place, one in enumerate(said) if one.lower() == word]
    return places[-1] if places else None
