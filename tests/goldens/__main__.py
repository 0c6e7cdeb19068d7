"""Record the goldens again: `python -W ignore -m tests.goldens`. State in the commit why requests changed."""

import shutil
import tempfile
from pathlib import Path

from tests.goldens.conversations import LANGUAGES
from tests.goldens.long_conversations import NAMES, golden, requests
from tests.goldens.recordings import write
from tests.goldens.windows import WAYS, Turn, build, turns

for language in LANGUAGES:
    with tempfile.TemporaryDirectory() as folder:
        filled = Path(folder) / "filled.db"
        build(f"sqlite:///{filled}", language)
        for way, (_, budgets) in WAYS.items():
            asked: dict[int, list[Turn]] = {}
            for budget in budgets:
                copied = shutil.copy(filled, Path(folder) / f"{way}-{budget}.db")
                asked[budget] = turns(f"sqlite:///{copied}", language, way, budget)
            write(language, way, asked)

for name in NAMES:
    for turn, text in requests(name).items():
        golden(name, turn).write_text(text, "utf-8")
