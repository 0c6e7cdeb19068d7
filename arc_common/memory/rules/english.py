"""English sentences: how they begin, ask, thank and join, whatever they state."""

import re

__all__ = ["CHIT_CHAT", "JOINER", "LEAD_INS", "LISTENER", "PROPER_NAME", "QUESTION", "REQUEST"]

LEAD_INS = re.compile(
    r"^(?:"
    r"(?:no|nope|yes|yeah|yep|look|listen|see|right|fine|great|now|sure|well|sorry|thanks|thank you"
    r"|good (?:morning|evening|afternoon)|perfect|cool|nice|alright|look here)[,.;:!—–-]+\s+"
    r"|(?:oh|wow|aw+|hi|hey|hello|so|and|but|also|plus|anyways?|anyhow|okay|ok|um+|uh+|ah|hmm+|actually"
    r"|honestly|basically|unfortunately|apparently"
    r"|by the way|btw|fyi|one (?:more|last) thing|another thing|before i forget|just so you know"
    r"|for the record|for what it's worth"
    r"|(?:as|like) i said|to be (?:clear|honest)|in fact|mind you|also note|for (?:context|reference)"
    r"|in case it helps)(?=[\s,.:;!—–-])[\s,.:;!—–-]{1,4}"
    r"|(?:i (?:think|guess|believe|suppose|mean|should mention|should add|forgot to (?:say|mention)"
    r"|wanted to (?:say|mention)|have to say|must say)"
    r"|(?:just |please )?(?:note|remember|keep in mind|bear in mind|be aware)|the (?:thing|point) is"
    r"|(?:it )?turns out|what matters is)(?: that|,)?\s(?=(?:i|we|my|our|the|it|he|she|they|you)\b)"
    r"|(?:can|could|would|will) you (?:please |also |just |maybe |possibly )?(?=\w))",
    re.IGNORECASE,
)
"""What a sentence may begin with and lose nothing without."""

QUESTION = re.compile(
    r"^(?:what|who|whom|whose|which|why|how|when|where|is|are|am|was|were|do|does|did|can|could|would"
    r"|will|should|shall|may|might|have|has|had|any)\b.{0,400}\?\W{0,3}$"
    r"|\?\W{0,3}$",
    re.IGNORECASE | re.DOTALL,
)

REQUEST = re.compile(r"^(?:[\w ,]{0,20}\s)?(?:can|could|would|will) (?:you|i|we|u)\b", re.IGNORECASE)
"""A question that asks for something to be done: what is to be done is said in it."""

CHIT_CHAT = re.compile(
    r"^(?:please )?(?:list|explain|recommend|create|tell me|provide|describe|summari[sz]e|generate|suggest|show me"
    r"|help me|teach me|compare|learn about|elaborate|rewrite|translate|write (?:a|an|me|the))\b"
    r"|\b(?:give me|looking for|need|want|get) (?:\w+ ){0,3}(?:information|info|ideas?|tips|examples?"
    r"|advice|suggestions)\b|"
    r"\b(?:thank(?:s| you| u)|thx|appreciate|sorry (?:for|about|to|if)|apolog\w{2,6}|hope (?:you|your"
    r"|this|that|it|we|all)|no (?:rush|worries|problem|need)|let me know|get back to (?:me|you)"
    r"|(?:makes?|made|making) (?:any |a lot of |perfect |more )?sense|rambl\w{1,4}|bear with me"
    r"|good (?:morning|evening|night|luck|point|idea|question)|have a (?:good|great|nice|lovely)"
    r"|take care|talk (?:to you )?(?:soon|later)|see you|nice to (?:hear|meet)|glad (?:to|you|that|i)"
    r"|happy to (?:hear|help)"
    r"|(?:you|you've|you're|you are) (?:probably|been|so|really|very|right|welcome|amazing|great"
    r"|the best)|sounds? (?:really |very |so |like |pretty ){0,2}(?:helpful|interesting|perfect|good"
    r"|great|like|amazing|awesome|fun|cool|wonderful)|(?:that|this|it)(?:'s"
    r"| is| was| sounds?) (?:really |so |such |very |pretty |quite |a |an ){0,3}(?:great|good|nice"
    r"|cool|awesome|amazing|funny|interesting|wonderful|fantastic|lovely|helpful|awful|fine|true|right"
    r"|fair)"
    r"|i (?:totally |completely |really |do |did )?(?:wonder|understand|agree|see what|know what"
    r"|hear you|get it|can imagine|can't wait|keep telling|was wondering|was just|laughed)"
    r"|don't (?:know|worry|mind|get me)|not (?:sure|certain|an expert)|no idea|to be (?:perfectly "
    r"|completely |totally )?honest|i (?:might|may|could|should|will|'ll) (?:well |probably |perhaps "
    r"|just |also )?(?:think|come back|have another|check|look|try|give it|definitely|keep that)"
    r"|i'll (?:definitely|try|check|look|think|keep|give|have|be sure|make sure)|in (?:your"
    r"|my) (?:opinion|view)|what do you think"
    r"|(?:i'm|i am) (?:so |really |very |just )?(?:excited|happy|glad|thrilled|curious|interested"
    r"|wondering|looking forward|thinking|grateful|proud|rambling|trying|hoping to (?:hear|learn"
    r"|find))|looking forward|sleep on it|slipped my mind|out of curiosity|long (?:message|story))\b",
    re.IGNORECASE,
)
"""Courtesies, comments on the conversation itself, and tasks for the assistant."""

PROPER_NAME = re.compile(
    r"(?<![.!?…] )(?<=[\w,;:'’\"“(-] )(?!I\b|I['’]|Ok\b|OK\b|English\b|Monday|Tuesday|Wednesday"
    r"|Thursday|Friday|Saturday|Sunday)"
    r"(?:(?:Dr|Mr|Mrs|Ms|Prof|St)\.\s)?[A-ZÀ-ÖØ-ÞĀ-Ž][\w’'&-]{1,30}(?:\s(?:(?:of|de|la|van|von|der|the"
    r"|and|&)\s)?[A-ZÀ-ÖØ-Þ0-9][\w’'&.-]{0,30}){0,4}"
)
"""Capitalised words that are not the first of their clause."""

LISTENER = re.compile(r"\b(?:you|your|yours|yourself|you're|you've|you'll|you'd)\b", re.IGNORECASE)
"""What is said of the listener, mostly encouragement."""

JOINER = re.compile(
    r"\s(?=(?:and|but|so|because|since|although|though|while|which|who|where|until|unless|if|when"
    r"|or)\s)"
)
"""Where a long clause may be divided."""
