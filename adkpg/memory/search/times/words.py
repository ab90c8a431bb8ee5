"""Words of time, by what they mean, in some twenty languages. Pure data.

Languages that write without spaces have patterns of their own, in `relative`.
"""

from collections.abc import Mapping
from typing import TypeVar

_Meaning = TypeVar("_Meaning", int, str)


def _by_word(words: Mapping[_Meaning, str]) -> dict[str, _Meaning]:
    return {word: meaning for meaning, text in words.items() for word in text.split()}


def _all(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _languages(words: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for language, text in words.items():
        for word in text.split():
            found[word] = (*found.get(word, ()), language)
    return found


MONTHS = _languages(
    {
        "en": "january february march april may june july august september october november "
        "december",
        "de": "januar jänner februar märz april mai juni juli august september oktober november "
        "dezember",
        "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre "
        "décembre",
        "es": "enero febrero marzo abril mayo junio julio agosto septiembre setiembre octubre "
        "noviembre diciembre",
        "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre "
        "novembre dicembre",
        "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro "
        "dezembro",
        "nl": "januari februari maart april mei juni juli augustus september oktober november "
        "december",
        "sv": "januari februari mars april maj juni juli augusti september oktober november "
        "december",
        "pl": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października "
        "listopada grudnia styczeń styczniu marzec kwiecień kwietniu czerwiec czerwcu lipiec lipcu "
        "sierpień sierpniu wrzesień wrześniu październik październiku listopad listopadzie "
        "grudzień grudniu",
        "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря "
        "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь январе "
        "феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре",
        "tr": "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
        "id": "januari februari maret april mei juni juli agustus september oktober november "
        "desember",
        "ar": "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
        "hi": "जनवरी फ़रवरी फरवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
    }
)
"""Months, and the languages that call them so."""

SHORT_MONTHS = _all("jan feb mar apr jun jul aug sep sept oct nov dec")
"""English ones, which are words and names too: only with a number."""

AMBIGUOUS_MONTHS = _all("may march mart mars ay ocak mai mei maj april june august augustus juni")
"""Those that are words or first names too: with a number, or a word of `LEADS` before them."""

LEADS = _all(
    "in of during since last this next early mid late every by until till before after from "
    "through past previous the im am le en de del di em nel à letzten letzter vergangenen "
    "diesen seit ab bis anfang mitte ende dezen vorige afgelopen i förra"
)
SURE_LEADS = _all("in of during since early mid late until till through")
"""After which even "may" and "march" without a capital are months."""

DAYS = _by_word(
    {
        0: "today tonight heute aujourd'hui hoy oggi hoje vandaag idag dziś dzisiaj сегодня bugün "
        "اليوم आज",
        -1: "yesterday gestern hier ayer anoche ieri ontem gisteren igår wczoraj вчера dün kemarin "
        "أمس امس कल",
        -2: "vorgestern avant-hier anteayer antier anteontem eergisteren förrgår przedwczoraj "
        "позавчера परसों",
    }
)
"""Days by name, counted from today's."""

UNITS = _by_word(
    {
        "day": "day days tag tage tagen jour jours día días dia dias giorno giorni dag dagen dagar "
        "dni dzień день дня дней gün hari يوم أيام दिन दिनों",
        "part": "night morning afternoon evening nacht nuit noche notte noite natt noc ночь ночью "
        "gece الليلة रात",
        "week": "week weeks woche wochen semaine semaines semana semanas settimana settimane weken "
        "vecka veckan veckor tydzień tygodniu tygodnie tygodni неделю неделе недели недель hafta "
        "minggu أسبوع الأسبوع أسابيع सप्ताह हफ्ते हफ़्ते",
        "weekend": "weekend weekends wochenende week-end helgen выходные выходных",
        "month": "month months monat monate monaten monats mois mes meses mese mesi mês maand "
        "maanden månad månaden månader miesiąc miesiącu miesiące miesięcy месяц месяца месяцев "
        "месяце ay bulan شهر الشهر أشهر महीने महीना",
        "year": "year years jahr jahre jahren jahres an ans année années año años anno anni ano "
        "anos jaar år året rok roku lata lat год года году лет yıl sene tahun سنة السنة سنوات عام "
        "العام साल वर्ष",
        "hour": "hour hours minute minutes stunde stunden minuten heure heures hora horas ora ore "
        "uur часа час часов saat jam ساعة ساعات घंटे",
    }
)
DUALS = _by_word({"day": "يومين", "week": "أسبوعين", "month": "شهرين", "year": "سنتين عامين"})
"""Two of a unit, in one word."""

THIS = _all(
    "this diese dieser diesem diesen dieses ce cet cette este esta questo questa neste nesta "
    "deze dit denna tym этой этом этот эту bu ini هذا هذه इस current"
)
LAST = _all(
    "last past previous letzte letzten letzter letztes letztem vorige vorigen voriger voriges "
    "vergangene vergangenen vergangenes dernier dernière derniers dernières passé passée "
    "pasado pasada pasados pasadas último última scorso scorsa scorsi scorse passato passata "
    "passado passada afgelopen vorig förra zeszły zeszłym zeszłego zeszłej ubiegły ubiegłym "
    "прошлый прошлой прошлом прошлую прошлые geçen lalu الماضي الماضية पिछले पिछली पिछला"
)
BEFORE_LAST = _all(
    "vorletzte vorletzten vorletzter vorletztes vorletztem antepasado antepasada позапрошлой "
    "позапрошлом позапрошлый позапрошлую zaprzeszły zaprzeszłym"
)
AGO = _all("ago earlier back geleden fa atrás sedan temu назад önce lalu पहले auparavant")
"""After a number of units: so long before now."""

SINCE = _all("vor y hace há قبل منذ för")
"""Before a number of units: likewise."""

NUMBERS = _by_word(
    {
        1: "one a an ein eine einem einer einen un une una uno um uma een één en ett jeden jedna "
        "один одну одна bir satu واحد एक",
        2: "two couple zwei deux dos due dois duas twee två dwa dwie два две iki dua दो",
        3: "three drei trois tres tre três drie trzy три üç tiga ثلاثة ثلاث तीन",
        4: "four vier quatre cuatro quattro quatro fyra cztery четыре dört empat أربعة أربع चार",
        5: "five fünf cinq cinco cinque vijf fem pięć пять beş lima خمسة خمس पांच पाँच",
        6: "six sechs seis sei zes sex sześć шесть altı enam ستة ست छह",
        7: "seven sieben sept siete sette sete zeven sju siedem семь yedi tujuh سبعة सात",
        8: "eight acht huit ocho otto oito åtta osiem восемь sekiz delapan ثمانية आठ",
        9: "nine neun neuf nueve nove negen nio dziewięć девять dokuz sembilan تسعة नौ",
        10: "ten zehn dix diez dieci dez tien tio dziesięć десять on sepuluh عشرة दस",
        11: "eleven elf onze once undici elva jedenaście одиннадцать onbir sebelas",
        12: "twelve zwölf douze doce dodici doze twaalf tolv dwanaście двенадцать oniki",
    }
)
FEW = _all(
    "few several some paar einigen wenigen mehreren quelques unos unas algunos algunas pocos "
    "qualche alcuni alcune pochi alguns algumas poucos enkele några kilka несколько birkaç "
    "beberapa عدة कुछ"
)
BETWEEN = _all("of de yang")
"""What may stand between a number and its unit, or a unit and its direction."""

WEEKDAYS = _by_word(
    {
        0: "monday montag lundi lunes lunedì segunda-feira maandag måndag måndags poniedziałek "
        "понедельник pazartesi senin الاثنين सोमवार",
        1: "tuesday dienstag mardi martes martedì terça-feira dinsdag tisdag wtorek вторник salı "
        "selasa الثلاثاء मंगलवार",
        2: "wednesday mittwoch mercredi miércoles mercoledì quarta-feira woensdag onsdag środę "
        "środa среду среда çarşamba rabu الأربعاء बुधवार",
        3: "thursday donnerstag jeudi jueves giovedì quinta-feira donderdag torsdag czwartek "
        "четверг perşembe kamis الخميس गुरुवार",
        4: "friday freitag vendredi viernes venerdì sexta-feira vrijdag fredag piątek пятницу "
        "пятница cuma jumat الجمعة शुक्रवार",
        5: "saturday samstag sonnabend samedi sábado sabato zaterdag lördag sobotę sobota субботу "
        "суббота cumartesi sabtu السبت शनिवार",
        6: "sunday sonntag dimanche domingo domenica zondag söndag niedzielę niedziela воскресенье "
        "pazar الأحد रविवार",
    }
)
NO_WEEKDAYS = _all(
    "every each any most black good easter palm ash cyber ruby super bloody fat jeden jede "
    "chaque cada ogni elke iedere varje każdy каждый каждую her setiap كل हर"
)
"""Before a weekday: of all weeks, or a name."""

ENGLISH_WEEKDAYS = _all("monday tuesday wednesday thursday friday saturday sunday")
WEEKDAY_LEADS = _all(
    "on last this past since previous from until till by before after late early and or"
)
WEEKDAY_FOLLOWERS = _all("morning evening night afternoon noon of")

SEASONS = _by_word(
    {
        3: "spring frühling frühjahr printemps primavera lente voorjaar wiosną wiosna весной "
        "ilkbahar",
        6: "summer sommer été verano estate verão zomer sommar sommaren lato latem лето летом yaz",
        9: "autumn fall herbst automne otoño autunno outono herfst hösten jesień jesienią осенью "
        "sonbahar",
        12: "winter hiver invierno inverno vinter vintern zima zimą зимой kış",
    }
)
"""The month in which each season begins, north of the equator."""

GERMANIC = _all(
    "ist gibt es was wo wie wer ich wir der die das und du sind hat kann een het is wat waar "
    "ik jij er en zijn van mit von"
)
"""In a text with one of these, "hier" is "here"."""
