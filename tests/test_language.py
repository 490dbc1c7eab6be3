"""Which language is a text in? Ordinary sentences, with the small words that neighbours share."""

from __future__ import annotations

import pytest

from refdesk.ingest.worker import detect_language

SENTENCES = {
    "en": "The harbour master has already fixed the fees for next year. What was left to do at the plants is done, and "
    "the council will talk about it at its next meeting.",
    "de": "Der Hafenmeister hat die Gebühren für das nächste Jahr bereits festgelegt. Was an den Anlagen in Cuxhaven "
    "noch zu tun war, ist so weit erledigt, und am Ende will man in der Sitzung darüber beraten.",
    "nl": "De havenmeester heeft de tarieven voor het komende jaar al vastgesteld. Wat er nog te doen was, is "
    "in orde, en we hebben er in de vergadering over gesproken of het zo kan.",
    "da": "Havnefogeden har allerede fastsat taksterne for det kommende år. Det arbejde, der var tilbage at gøre i "
    "anlæggene, er færdigt, og rådet vil tale om det i det næste møde for at være sikker.",
    "fr": "Le capitaine du port a déjà fixé les tarifs de l'année prochaine. Les travaux qui restaient à faire sur les "
    "installations sont terminés et le conseil en parlera lors de sa prochaine réunion.",
    "es": "El capitán del puerto ya ha fijado las tarifas del próximo año. Los trabajos que quedaban por hacer en las "
    "instalaciones han terminado y el consejo hablará de ello en su próxima reunión.",
    "pt": "O capitão do porto já fixou as tarifas do próximo ano. Os trabalhos que faltava fazer nas instalações "
    "terminaram e o conselho vai falar disso na próxima reunião, como a lei manda.",
    "pl": "Kapitan portu ustalił już opłaty na przyszły rok. Prace, które pozostały do wykonania w instalacjach, "
    "zostały zakończone i rada będzie o tym mówić na swoim następnym posiedzeniu, a do tego by to było.",
    "ru": "Капитан порта уже установил тарифы на следующий год. Работы, которые оставалось выполнить, завершены.",
    "ja": "港長は来年の料金をすでに決定した。設備の作業は終了しており、評議会は次回の会議で話し合う予定である。",
    "zh": "港务局长已经确定了明年的收费标准。设施中尚未完成的工作已经结束，理事会将在下次会议上讨论此事。",
    "ko": "항만장은 이미 내년 요금을 결정했다. 시설에 남아 있던 작업은 끝났으며 위원회는 다음 회의에서 논의한다.",
    "ar": "حدد مدير الميناء بالفعل رسوم العام المقبل. انتهت الأعمال المتبقية في المنشآت وسيناقش المجلس ذلك.",
    "he": "מנהל הנמל כבר קבע את התעריפים לשנה הבאה. העבודות שנותרו במתקנים הסתיימו והמועצה תדון בכך בישיבתה הבאה.",
    "hi": "बंदरगाह के कप्तान ने अगले वर्ष के शुल्क पहले ही तय कर दिए हैं। संयंत्रों में बचा हुआ काम पूरा हो गया है।",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_language(code: str) -> None:
    assert detect_language(SENTENCES[code]) == code
    assert detect_language(SENTENCES[code] * 100) == code, "a long text is sampled"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("12 345,67", id="numbers"),
        pytest.param("Guten Tag", id="too_short_to_tell"),
        pytest.param("C-102 | Calibration | 310\n" * 30, id="a_table"),
        pytest.param("SELECT name FROM harbours WHERE depth > 9;\n" * 10, id="code"),
    ],
)
def test_too_little_to_tell_is_english(text: str) -> None:
    assert detect_language(text) == "en"
