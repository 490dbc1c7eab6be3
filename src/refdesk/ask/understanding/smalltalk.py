"""What is said that is no question to the documents, and what is honest to reply? Pure.

>>> kind("Hello there!"), kind("Hello, what is the warranty period?")
('greeting', '')
"""

from __future__ import annotations

import re

from refdesk.answer import Query

# One pattern a line; the usual forms only: the nearest labelled questions know the others (ask/route.py).
_SPOKEN = {
    ("greeting", "en"): """
        hello|hi|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)|what'?s up
    """,
    ("greeting", "de"): "hallo|guten (?:morgen|tag|abend)|moin(?: moin)?|servus|grüß (?:gott|dich)|grüezi",
    ("greeting", "fr"): "bonjour|bonsoir|salut|coucou",
    ("greeting", "es"): "hola|buenos d[ií]as|buenas(?: tardes| noches)?",
    ("greeting", "it"): "ciao|buon ?giorno|buona ?sera|salve",
    ("thanks", "en"): r"""
        (?:(?:ok(?:ay)?|great|perfect|cool),? )?(?:many thanks|thanks|thank you|thx|cheers)(?: a lot| (?:so|very) much)?
        thank(?:s| you)(?: so much| very much)? for (?:your|the|all|that|this)[\w ]{0,25}
        (?:i )?(?:really )?appreciate (?:it|that)|much appreciated
    """,
    ("thanks", "de"): "danke(?: schön| sehr)?|vielen dank|besten dank",
    ("thanks", "fr"): "merci(?: beaucoup| bien)?",
    ("thanks", "es"): "(?:muchas )?gracias",
    ("thanks", "it"): "grazie(?: mille)?",
    ("goodbye", "en"): """
        (?:ok(?:ay)?,? )?(?:good ?bye|bye(?: bye)?|see you(?: later| soon| tomorrow)?|farewell|take care|good ?night)
        have a (?:nice|good|great) (?:day|evening|weekend|one)
    """,
    ("goodbye", "de"): "tschüss|auf wiedersehen|bis (?:bald|später)",
    ("goodbye", "fr"): "au revoir|à bientôt|bonne (?:journée|soirée)",
    ("goodbye", "es"): "adi[oó]s|hasta (?:luego|pronto|mañana)",
    ("goodbye", "it"): "arrivederci|a presto",
    ("abilities", "en"): r"""
        what (?:else )?(?:can|do|could) you (?:do|help (?:me )?with|answer|know)(?: for me)?
        what (?:can|could|should|may) i (?:ask|do with) (?:you|here)(?: about)?
        (?:what|which) (?:kinds?|sorts?|types?) of (?:questions|things|topics) can (?:i ask|you answer)[\w ]{0,15}
        (?:(?:can|could) you )?(?:please )?help(?: me)?(?: please)?|i need (?:some )?help
        how (?:can|could|do) you help(?: me)?|how do you work|how does this work
        what are (?:you able to do|your (?:capabilities|skills|abilities|features))
    """,
    ("identity", "en"): r"""
        who are you|what are you|what(?:'s| is) your name|do you have a name|(?:please )?tell me your name
        are you (?:an? )?(?:\w+ )?(?:human|person|bot|robot|machine|computer|program|chat ?bot|ai)(?: or (?:an? )?\w+)?
        who (?:made|built|created|programmed|designed|developed|owns|trained) you|who do you work for
        how old are you|where are you from|where do you (?:come from|live)|when were you (?:born|made|built)
        (?:tell me about|introduce|describe) yourself
    """,
    ("feeling", "en"): """
        how are you(?: doing| feeling)?(?: today)?|how do you do|how(?:'s| is) it going|how is your day(?: going)?
        (?:it'?s )?(?:nice|good|great|pleased) to (?:meet|see|talk to) you(?: too)?
        i (?:love|like|hate) you
        you(?:'re| are) (?:(?:so|very|really) )?(?:great|awesome|wrong|right|funny|stupid|smart|helpful|nice)
        what are your hobbies|do you (?:have|like|love) (?:any )?(?:pets|music|people|feelings|your job)
    """,
    ("acknowledgement", "en"): """
        ok(?:ay)?|alright|all right|fine|cool|great|perfect|nice|wow|good|excellent|right|sure|got it|i see|understood
        interesting|sounds (?:good|great)|makes sense|never ?mind|forget it|sorry|my mistake|oops|hmm+|haha+|lol
        (?:yes(?: please)?|yeah|yep|no(?: thanks| thank you| problem)?|nope|maybe|perhaps|of course|exactly|correct)
        that(?:'s| is| was) (?:all|it|good|great|helpful|right|correct|wrong|interesting|enough)(?: for now)?
        test(?:ing)?|(?:i'?m|i am) just testing|i (?:don'?t|do not) (?:know|understand)(?: you)?|that helps
    """,
}  # fmt: skip
_ADDRESS = r"(?:[ ,]++(?:there|all|everyone|again|friend|desk|refdesk|mate|sir|madam|to you|then|that helps|please))*"


def _either(text: str) -> str:
    return "|".join(f"(?:{line.strip()})" for line in text.strip().splitlines())


_PATTERNS = [
    (group, language, re.compile(rf"(?:(?:oh|well|so|and),? )?(?:{_either(text)}){_ADDRESS}\Z", re.IGNORECASE))
    for (group, language), text in _SPOKEN.items()
]
_FIRST = [text for (group, _), text in _SPOKEN.items() if group in ("greeting", "thanks")]
_GOES_ON = "and|but|what|who|when|where|which|why|how|is|are|can|could|do|does|did|tell|please|list|compare"
_OPENING = re.compile(
    rf"(?:{'|'.join(map(_either, _FIRST))}|ok(?:ay)?|so|well|alright|great|cool|please|sorry){_ADDRESS}"
    rf"(?:\s*+[,.!;:–-]++\s*|\s++(?=(?:{_GOES_ON})\b))",
    re.IGNORECASE,
)

_REPLIES = {
    ("greeting", "en"): "Hello. Ask me about your documents.",
    ("greeting", "de"): "Hallo. Fragen Sie mich etwas zu Ihren Dokumenten.",
    ("greeting", "fr"): "Bonjour. Posez-moi une question sur vos documents.",
    ("greeting", "es"): "Hola. Pregúnteme algo sobre sus documentos.",
    ("greeting", "it"): "Salve. Mi chieda qualcosa sui Suoi documenti.",
    ("thanks", "en"): "You are welcome.",
    ("thanks", "de"): "Gern geschehen.",
    ("thanks", "fr"): "Je vous en prie.",
    ("thanks", "es"): "De nada.",
    ("thanks", "it"): "Prego.",
    ("goodbye", "en"): "Goodbye.",
    ("goodbye", "de"): "Auf Wiedersehen.",
    ("goodbye", "fr"): "Au revoir.",
    ("goodbye", "es"): "Adiós.",
    ("goodbye", "it"): "Arrivederci.",
    ("abilities", "en"): (
        "I answer questions from the documents you have added, and show for each sentence the page and the lines that "
        "prove it. I can also summarise them, list things and compare them. What is not in the documents I do not know."
    ),
    ("identity", "en"): "I am Refdesk, a program that answers from the documents you have added. I am not a person.",
    ("feeling", "en"): "I am a program, so there is little to tell of me. Ask me about your documents.",
    ("acknowledgement", "en"): "Good. Ask me about your documents when you need something.",
    ("", "en"): "I only answer from the documents you have added. Ask me about them.",
}
OUT_OF_SCOPE = "I cannot do that: I only answer from the documents you have added."


def kind(text: str) -> str:
    """Which sort of small talk the whole text is, "" when it is none."""
    return _kind_and_language(text)[0]


def without_greeting(text: str) -> str:
    """The question after a greeting or a thank-you; the text itself when nothing would be left.

    >>> without_greeting("Hello, what is the warranty period?")
    'what is the warranty period?'
    """
    text, start = text.strip(), 0
    while (found := _OPENING.match(text, start)) is not None and found.end() < len(text):
        start = found.end()
    return text[start:]


def reply(query: Query) -> str:
    """What is said to small talk, and to what no document can do."""
    if query.route == "out_of_scope":
        return OUT_OF_SCOPE
    return _REPLIES[_kind_and_language(query.question)]


def _kind_and_language(text: str) -> tuple[str, str]:
    said = " ".join(text.replace("’", "'").split())
    whole = " ".join(re.sub(r"(?:(?<![\s,])[\s,]+)?(?<![!?.…,;:)(])[!?.…,;:)(]+(?=\s|\Z)", " ", said).split())
    rest = without_greeting(said).strip(" !?.…,;:")  # "Hello! How are you?" is a feeling
    for candidate in dict.fromkeys((whole, rest)):
        for group, language, pattern in _PATTERNS:
            if pattern.match(candidate):
                return group, language
    return "", "en"
