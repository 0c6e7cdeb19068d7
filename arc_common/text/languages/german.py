"""German: the forms of its questions, suppositions, joints and statements of facts; its words are in `german.txt`."""

from arc_common.text.languages.language import Language, Pattern, vocabulary

_WORDS, _PHRASES = vocabulary("german")
_ASKS, _VERB_FIRST, _CHANGED = _PHRASES["questions"], _PHRASES["verbs_first"], _PHRASES["changed"]
_SHORT = r"[\w:.,'€]*(?: [\w:.,'€]+){0,3}"
_NOW = _PHRASES["now"]
_NONE = r"(?:nicht|nichts|nie|niemals|niemand\w{0,2}|keine?\w?)\b"
_PAST = rf"(?:(?:{_PHRASES['gone']}|{_PHRASES['guessed']}) sein|(?:ge\w+|{_PHRASES['gone']}) haben)"
_NAME = r"([A-ZÄÖÜ][\wäöüß&-]*(?: [A-ZÄÖÜ][\wäöüß&-]*){0,2})"

GERMAN = Language(
    name="German",
    script="latin",
    stemmer="german",
    capitalises_nouns=True,
    **_WORDS,
    verb_ending=Pattern(r"(?<=\w\w\w)(?:e?s?t|en?)$"),
    lead_ins=Pattern(
        rf"^(?:{_PHRASES['interjections']}[\s,.:!()]{{1,4}}|ich (?:glaube|denke|meine), (?:dass )?"
        rf"|(?:bitte )?{_PHRASES['reminders']}(?: bitte)?(?:, dass |:\s+))"
    ),
    seeking=Pattern(
        rf"^(?:{_PHRASES['openings']}[\s,!]{{1,3}}){{0,3}}(?:(?:in|an|für|mit|seit|bis|von|zu|auf) )?"
        rf"(?:(?P<asked>(?!kön|würd)(?:{_VERB_FIRST}|bin) {_PHRASES['subjects']}\b"
        rf"|{_ASKS}\b(?! {_PHRASES['subjects']}\b))"
        rf"|{_ASKS}\b|{_VERB_FIRST}\s\w|{_PHRASES['requests']}e?\b)"
        rf"|\b(?:{_PHRASES['recollections']}"
        rf"|(?:weiß (?:\w+ ){{0,2}}nicht|wüsste|frag\w*|möchte wissen),? (?:ob|{_ASKS}))\b|\bbitte\W*$"
    ),
    confirming=Pattern(rf"(?:,\s?{_PHRASES['confirmed']}|[\s,]\s?{_PHRASES['tags']})\W*$"),
    relating=Pattern(rf"{_ASKS} {_PHRASES['subjects']}\b"),
    supposition=Pattern(
        r"^(?:was wäre,? wenn|angenommen|stell dir vor|nehmen wir an)\b"
        rf"|\b(?:vielleicht|wahrscheinlich|hätte\w?|wäre\w?|würde(?! gern)|könnte|muss\w* (?:wohl|ja|.*{_PAST}))\b"
    ),
    condition=Pattern(r"^(?:(?:und|aber|also) )?(?:wenn|falls|sofern)\b"),
    oneself=Pattern(r"\b(?:ich|wir|mich|mir|uns|mein\w{0,2}|unser\w{0,2})\b"),
    listener=Pattern(r"\b(?:du|dich|dir|dein\w{0,2}|Sie|Ihnen|Ihre?)\b", cased=True),
    lasting=Pattern(
        rf"\b{_PHRASES['states']}\b|\b(?:mein|unser)\w{{0,2}} (?:[\w-]+ ){{1,3}}{_PHRASES['states_of_others']}\b"
    ),
    forbidding=Pattern(
        r"^(?:(?:bitte|und|aber|also),? )?"
        rf"(?:(?P<limit>(?:{_PHRASES['limits']}|(?:(?:all|jed)\w+ (?:\w+ )?)?{_PHRASES['exceptions']}) {_SHORT}\W*$"
        rf"|\W?\d{_SHORT},? {_PHRASES['final_limits']}(?: bitte)?\W*$)"
        r"|(?:\w+ ){0,2}(?:nie|niemals)\b|keine?\w?\b|auf keinen fall|kein\w* \w+ bitte"
        r"|nur(?! (?:dass|damit|so|kurz|noch|zur|zum|mal|weil|ein\w{0,2})\b)"
        r"|nicht (?:\w+ (?:bitte|wieder)|(?:vor|nach|über|unter|mehr als|am|im|in) \w+(?: \w+){0,2}\W*$)"
        rf"|(?:bis zu|maximal) \d|niemand\w* (?:darf|soll)|{_PHRASES['requests']}e? (?:\w+ ){{0,4}}{_NONE})"
        rf"|\b(?:(?:darf\w*|dürfen|(?<!wir )soll(?:en|te\w*)?) (?:\w+ ){{0,4}}{_NONE}(?! (?:problem|heißen))"
        rf"|möchten? (?:\w+ ){{0,3}}(?:nicht, dass|{_NONE} (?:\w+ ){{0,4}}werden)|bitte {_NONE}"
        r"|bitte nur(?! (?:kurz|mal)\b)"
        rf"|nicht (?:\w+ ){{0,3}}{_PHRASES['refused']}|(?:also|daher|darum|deshalb|deswegen) (?:\w+ )?keine?\w?"
        rf"|muss (?!.*{_PAST}\b)(?:\w+ ){{0,4}}sein|{_PHRASES['forbidden']})\b"
    ),
    vague=Pattern(
        rf"^(?:und |aber )?(?:\d[\d.,]* [\w€]+ (?:ist|sind|wären?|waren|mach\w+) )?"
        rf"(?:er|sie|es|das(?! (?-i:[A-ZÄÖÜ]))|dies\w*|jen\w*|sein\w*|ihr\w*|dort|(?:der|die|den|dem)"
        rf" (?={_PHRASES['demonstrated']}\b)|da(?:von|für|mit|zu|rauf|bei|nach|gegen|durch)?)\b"
    ),
    ordinal=Pattern(
        r"\b(?:(?<!\bi )am|im|vom|zum|zur|beim|der|die|das|den|dem|des) \d{1,3}\."
        rf"|(?<!\d)\d{{1,2}}\.(?= {_PHRASES['counted']}\b)"
    ),
    denying=Pattern(rf"\b(?:nicht(?! nur)|kein\w{{0,2}}|nie(?:mals)?|{_PHRASES['denied']}|{_PHRASES['left']})\b"),
    changing=Pattern(rf"\b(?:{_NOW}|stattdessen|{_CHANGED})\b"),
    leaving=Pattern(rf"\b(?:nicht mehr|kein\w{{0,2}} \w+ mehr|{_PHRASES['left']})\b"),
    replacing=Pattern(r"\b(?:an)?statt ([\w€$.-]+(?: [\w€$.-]+){0,3})"),
    parting=Pattern(rf"[;!] | [–—-]+ |(?:,|,? (?:und|aber|sondern))(?= (?:ich|wir|{_NOW}|{_PHRASES['states']})\b)"),
    naming=Pattern(
        rf"^(?:mein|unser)\w{{0,2}} (?P<name>[\w -]{{2,40}}?) (?:ist|heißt) (?:{_NOW} )?"
        r"(?P<value>(?-i:[A-ZÄÖÜ])[\w. -]*)$"
    ),
    relations={
        "home": Pattern(
            rf"\b(?:[Ww]ohnen?|[Ll]ebe|wohnt|lebt)(?: ich| wir)?(?: {_NOW})? in {_NAME}|\bnach {_NAME} (?:um)?gezogen",
            cased=True,
        ),
        "role": Pattern(
            rf"\b(?:[Mm]ein|[Uu]nser)e? (?:neuer? )?({_PHRASES['roles']}) (?:ist|heißt) {_NAME}", cased=True
        ),
        "employer": Pattern(rf"\b[Aa]rbeite[nt]?(?: ich)?(?: {_NOW})? (?:bei|für) {_NAME}", cased=True),
        "age": Pattern(r"\b(?:bin|ist) (?:jetzt )?(\d{1,2})(?: Jahre alt)?\W*$"),
    },
    attribute=Pattern(
        rf"(?:^|\b(?:mein|unser|der|die|das)\w{{0,2}} )(?P<name>(?:[\w-]+ ){{0,2}}?{_PHRASES['single_valued']})"
        r"(?: (?:ist|sind|lautet|beträgt|liegt|bei|wurde|hat|sich|jetzt|nun|damit|also|auf|um|am))+ (?P<value>.+)"
    ),
    forget=Pattern(
        r"^(?:(?:bitte|und|nein|ok)[\s,]{1,2}){0,2}"
        r"(?:merk dir (?:das )?nicht|(?![^.!?,\n]*\b(?:nicht|nie|niemals)\b)"
        r"(?:vergiss\b|vergessen sie\b|(?:kannst|könntest|würdest) du (?:\w+ )?vergessen\b"
        r"|lösch\w{0,2}\b[^.!?\n]{0,40}\b(?:erinnerung|notiz)))"
    ),
    said_instead=Pattern(r"(?s).{0,1200}?[,;.–-]\s(?:(?:sondern|aber|denn|jetzt)\s)?(?=(?:ich|wir)\s)"),
    text_task=Pattern(
        rf"(?m)(?:^|(?<=[.!?,]\s))[ \t]*(?:(?:bitte|kannst du|könntest du)\s){{0,2}}{_PHRASES['tasks']}\b"
        r"[^:\n\"“„]{0,60}(?::\s{0,3}|(?=[\"“„]))"
    ),
)
