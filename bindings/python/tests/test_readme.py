"""The programs of the documents run, and say what the documents say."""

import contextlib
import io
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["bindings/python/README.md", "docs/src/python.md"])
def test_programs_of_the_documents(name: str) -> None:
    pytest.importorskip("numpy")
    programs = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)
    assert programs
    for program in programs:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(program, name, "exec"), {"__name__": "__main__"})
        said = [line.split("# ", 1)[1] for line in program.splitlines() if "print(" in line and "# " in line]
        assert output.getvalue().split() == " ".join(said).split(), name
