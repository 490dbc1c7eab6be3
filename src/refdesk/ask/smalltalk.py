"""What is said that is no question to the documents, and what is honest to reply? Pure.

>>> kind("Hello there!"), kind("Hello, what is the warranty period?")
('greeting', '')
"""

from __future__ import annotations

import re

from refdesk.answer import Query

_GREETINGS = {
    "en": r"hello|hi|hey|hiya|howdy|yo|greetings|good (?:morning|afternoon|evening|day)|morning|evening|what'?s up|sup",
    "de": r"hallo|guten (?:morgen|tag|abend)|moin(?: moin)?|servus|grüß (?:gott|dich|euch)|grüezi|gruss gott|gruess gott",
    "fr": r"bonjour|bonsoir|salut|coucou",
    "es": r"hola|buenos d[ií]as|buenas (?:tardes|noches)|buenas",
    "it": r"ciao|buongiorno|buon giorno|buonasera|buona sera|salve",
}
_THANKS = {
    "en": r"(?:(?:ok|okay|great|perfect|good|cool|nice|awesome|excellent|alright),? )?"
    r"(?:many thanks|thanks?(?: you)?|thank u|thx|ty|cheers|much appreciated|i appreciate (?:it|that|your help)|appreciate it)"
    r"(?: (?:a lot|so much|very much|a bunch|again|a million|for (?:your|the|all(?: the| your)?|that|this|everything)[\w ]{0,25}))?",
    "de": r"danke(?: (?:schön|sehr|dir|ihnen))?|vielen dank|besten dank",
    "fr": r"merci(?: (?:beaucoup|bien))?",
    "es": r"(?:muchas )?gracias",
    "it": r"(?:molte )?grazie(?: mille)?",
}
_GOODBYES = {
    "en": r"(?:ok(?:ay)?,? )?(?:good ?bye|bye(?: bye)?|see (?:you|ya)(?: (?:later|soon|tomorrow|around|next time))?|so long|farewell|take care|"
    r"talk to you (?:later|soon)|have a (?:nice|good|great) (?:day|one|evening|weekend|night)|good ?night|later|catch you later)",
    "de": r"tschüss|tschuess|auf wiedersehen|bis bald|bis später",
    "fr": r"au revoir|à bientôt|a bientot|bonne (?:journée|soirée)",
    "es": r"adi[oó]s|hasta (?:luego|pronto|mañana)",
    "it": r"arrivederci|a presto|addio",
}
_ADDRESS = (
    r"(?:[ ,]+(?:there|all|everyone|again|friend|desk|refdesk|assistant|bot|buddy|mate|sir|madam|to you|my friend))*"
)
_ABOUT_ME = {
    "abilities": [
        r"(?:so )?what (?:else )?(?:can|do|could) you (?:do|help (?:me )?with|answer|offer|know)(?: for me| about)?",
        r"what (?:can|could|should|may|do) i (?:ask|say to|do with) (?:you|here|this)(?: about| for| to do| help with)?",
        r"(?:what|which) (?:kinds?|sorts?|types?) of (?:questions?|things|stuff|topics?|subjects?) (?:can|could|do|may|should) (?:i|you) "
        r"(?:ask|answer|help|do|know)[\w ]{0,30}",
        r"(?:can|could|will|would) you (?:please )?help(?: me)?(?: out)?(?: please)?|help(?: me)?(?: please)?|i need (?:some |your )?help|please help(?: me)?",
        r"how (?:can|could|do) you help(?: me)?|how (?:can|do) i use (?:you|this)|how does this work|how do you work",
        r"what (?:are|is) your (?:capabilit(?:y|ies)|skills?|abilit(?:y|ies)|functions?|features?|areas? of expertise|purpose|job)",
        r"what are you (?:able to do|capable of|good at|for)|tell me what you can do|what do you do",
    ],
    "identity": [
        r"(?:and )?who are you(?: exactly| really)?|what are you(?: exactly| called)?|what(?:'s| is| was) your (?:full |real )?name(?: again| please)?",
        r"(?:may|can|could) i (?:know|have|ask) your name|do you have a name|what (?:should|do|can|may) i call you|tell me your name|your name please",
        r"(?:are you|am i (?:talking|speaking|chatting) (?:to|with)|is this|do you consider yourself) (?:really |actually |just |still |possibly |"
        r"maybe )?(?:an? )?(?:\w+ )?(?:human|person|bot|robot|machine|computer|program|chat ?bot|a\.?i\.?|real|live|alive|artificial\w*)"
        r"(?: \w+)?(?: or (?:an? )?(?:\w+ )?\w+)?",
        r"(?:who|which (?:company|person|people|firm)|what (?:company|person|people)) (?:has |have |was it that )?(?:made|built|created|programmed|designed|"
        r"developed|invented|owns|wrote|coded|trained|produced|manufactured) you[\w ]{0,12}",
        r"who (?:is|was|are) your (?:boss|maker|creator|owner|designer|employer|developers?|programmers?|manager|inventor|manufacturer)s?",
        r"(?:who|what company) do you (?:work|report|answer) (?:for|to)|what company (?:made|makes) you|are you (?:made|owned|built|created) by \w+",
        r"(?:where|what (?:country|place|city|part)[\w ]{0,15}) (?:are|were|do|did) you (?:from|come from|born|made|created|built|live|located)(?: \w+)?",
        r"how old are you|what(?:'s| is) your age|when (?:were you (?:born|made|created|built)|is your birthday)|tell me your age",
        r"tell me (?:something )?about yourself|(?:please )?introduce yourself|describe yourself",
    ],
    "feeling": [
        r"how (?:are|r) (?:you|u)(?: (?:doing|feeling))?(?: (?:today|this (?:morning|evening|afternoon)))?|how do you (?:do|feel)",
        r"how(?:'s| is|'ve you been| have you been| are things| is it going| goes it| was your)(?: (?:it|life|everything|your (?:day|morning|week|weekend)|things))?"
        r"(?: (?:going|been|today|with you|for you|so far))*",
        r"(?:it'?s |it was )?(?:nice|good|great|pleased|lovely) to (?:meet|see|talk to|chat with) you(?: too| as well)?|i'?m (?:fine|good|well|ok)(?: thanks?| thank you)?",
        r"what(?:'s| is| are)? your (?:favou?rite )?(?:hobb(?:y|ies)|interests?|pastimes?|passions?)|(?:what )?do you have (?:any )?(?:\w+ )?(?:hobbies|pets?|cats?|dogs?|feelings|friends|a pet|a dog|a cat)"
        r"|what do you (?:do|like to do|enjoy)(?: doing)?(?: (?:for fun|in your (?:free|spare) time))",
        r"do you (?:like|love|enjoy|hate) (?:me|music|people|your (?:job|work)|humans|it here)",
        r"i (?:love|like|hate) you|you(?:'re| are) (?:(?:so|very|really|too) )?(?:great|awesome|wrong|right|funny|cute|stupid|smart|useless|"
        r"amazing|the best|nice|kind|helpful|welcome|rude|clever|dumb)",
    ],
    "acknowledgement": [
        r"(?:ok(?:ay)?|k|alright|all right|fine|cool|great|perfect|nice|wow|good|excellent|awesome|super|right|sure|got it|i see|understood|"
        r"interesting|sounds? (?:good|great|fine)|makes sense|that(?:'s| is| was) (?:all|it|good|great|helpful|right|correct|wrong|interesting|"
        r"not (?:right|correct|true|helpful)|enough)|never ?mind|forget it|no(?: problem| worries|pe)?|yes(?: please)?|yeah|yep|yup|no thanks?(?: you)?|"
        r"sorry|my (?:mistake|bad)|oops|hmm+|haha+|lol|test(?:ing)?|i(?:'m| am) just testing|done|nothing|maybe|perhaps|i (?:don'?t|do not) (?:know|understand)(?: you)?|"
        r"i'?m not sure|not sure|absolutely|of course|exactly|correct|true|false|very (?:good|nice|helpful)|well done|good (?:job|work|bot))"
        r"(?:[ ,]+(?:then|now|thanks?|thank you|ok(?:ay)?|got it|great|sure|that helps|that was helpful|for now|with that|so much))*",
    ],
}  # fmt: skip
# The languages of a group have one pattern each, so that the reply can be in the same one.
_SPOKEN = {
    group: {
        language: re.compile(rf"(?:oh,? |well,? )?(?:{one}){_ADDRESS}\Z", re.IGNORECASE)
        for language, one in each.items()
    }
    for group, each in (("greeting", _GREETINGS), ("thanks", _THANKS), ("goodbye", _GOODBYES))
}
_MINE = {
    group: re.compile("(?:" + "|".join(f"(?:{one})" for one in patterns) + r")(?:,? please)?\Z", re.IGNORECASE)
    for group, patterns in _ABOUT_ME.items()
}
_OPENING = re.compile(
    "(?:" + "|".join([*_GREETINGS.values(), *_THANKS.values(), "ok(?:ay)?|so|well|alright|great|cool|please|sorry"])
    + rf"){_ADDRESS}\s*(?:[,.!;:–-]+\s*|\s+(?=(?:and|but|what|who|when|where|which|why|how|is|are|can|could|do|does|did|tell|please)\b))",
    re.IGNORECASE,
)  # fmt: skip

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
    ("abilities", "en"): "I answer questions from the documents you have added, and show for each sentence the page and the lines "
    "that prove it. I can also summarise them, list things and compare them. What is not in the documents I do not know.",
    ("identity", "en"): "I am Refdesk, a program that answers from the documents you have added. I am not a person.",
    ("feeling", "en"): "I am a program, so there is nothing to tell of me. Ask me about your documents.",
    ("acknowledgement", "en"): "Good. Ask me about your documents when you need something.",
}  # fmt: skip
OUT_OF_SCOPE = "I cannot do that: I only answer from the documents you have added."


def kind(text: str) -> str:
    """Which sort of small talk the whole text is, "" when it is none."""
    return _kind_and_language(text)[0]


def without_greeting(text: str) -> str:
    """The question after a greeting or a thank-you; the text itself when nothing would be left.

    >>> without_greeting("Hello, what is the warranty period?")
    'what is the warranty period?'
    """
    rest = text.strip()
    while (found := _OPENING.match(rest)) is not None and len(rest) > found.end():
        rest = rest[found.end() :]
    return rest


def reply(query: Query) -> str:
    """What is said to small talk, and to what no document can do."""
    if query.route == "out_of_scope":
        return OUT_OF_SCOPE
    found, language = _kind_and_language(query.question)
    return _REPLIES.get((found or "acknowledgement", language), _REPLIES["acknowledgement", "en"])


def _kind_and_language(text: str) -> tuple[str, str]:
    said = " ".join(re.sub(r"[\s,]*[!?.…,;:)(]+(?=\s|\Z)", " ", text.replace("’", "'")).split())
    for candidate in dict.fromkeys((said, without_greeting(said), _last(text))):
        for group, each in _SPOKEN.items():
            for language, pattern in each.items():
                if pattern.match(candidate):
                    return group, language
        for group, pattern in _MINE.items():
            if pattern.match(candidate):
                return group, "en"
    return "", "en"


def _last(text: str) -> str:
    """What stands after the opening words: "Hello! How are you?" -> "How are you"."""
    return without_greeting(" ".join(text.replace("’", "'").split())).strip(" !?.…,;:")
