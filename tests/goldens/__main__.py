"""Records the goldens anew: `python -m tests.goldens`. Say in the commit why prompts changed."""

import shutil
import tempfile
from pathlib import Path

from tests.goldens.conversations import LANGUAGES
from tests.goldens.windows import BUDGETS, WAYS, Shown, build, windows, write_goldens

for language in LANGUAGES:
    turns: dict[str, list[Shown]] = {}
    with tempfile.TemporaryDirectory() as folder:
        filled = Path(folder) / "filled.db"
        build(f"sqlite:///{filled}", language)
        for way in WAYS:
            for budget in BUDGETS:
                copied = shutil.copy(filled, Path(folder) / f"{way}-{budget}.db")
                turns[f"{way}/{budget}"] = windows(f"sqlite:///{copied}", language, way, budget)
    write_goldens(language, turns)
