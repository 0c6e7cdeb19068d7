"""The README shows what runs."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_every_snippet_runs_from_top_to_bottom(tmp_path):
    """In an empty folder, in the order in which a reader meets them; the printed figures are the ones it speaks of."""
    snippets = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(snippets) >= 5
    outputs = []
    for snippet in snippets:
        program = ["-W", "ignore", "-c", snippet]  # LangChain warns that RunnableWithMessageHistory is deprecated
        run = subprocess.run([sys.executable, *program], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        outputs.append(run.stdout.strip())
    assert outputs[0] == "Your order number is 4711."
    assert "Nobody asked" not in outputs[1]
    assert outputs[2] == "8"


def test_set_up_is_two_commands():
    """`make demo` and `make test`, and nothing else."""
    consoles = re.findall(r"^```console\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    commands = [line[2:].split("#")[0].strip() for block in consoles for line in block.splitlines()]
    assert commands == ["make demo", "make test"]
