"""Each house rule can fail.

Each rule gets a tiny tree that breaks it, and one that does not: a rule that cannot fail checks nothing. That this
repository follows them is the tidy step of `make check`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools import module_map
from tools.tidy import code, texts, words
from tools.tidy.__main__ import NOTES, RULES, main
from tools.tidy.tree import Finding, Tree

ROOT = Path(__file__).resolve().parents[2]

Rule = Callable[[Tree], Iterator[Finding]]
Files = dict[str, str]

LONG_WITH_A_LOOP = "def long():\n    for _ in ():\n        pass\n" + "    x = 1\n" * code.FUNCTION_LINES
LONG_TABLE = "def table():\n" + "    x = 1\n" * (code.FUNCTION_LINES + 20)
MOSTLY_WORDS = (
    'def documented():\n    """Says.\n'
    + "    much\n" * 80
    + '    """\n    for _ in ():\n        # why\n\n        pass\n'
)
MAP = module_map.HEAD + "\n## model\n\n\n\n| module | |\n|---|---|\n| [a](../../src/fairpool/model/a.py) | A thing. |\n"
DONE = "| F-01 | pooling | done | `tests/test_pool.py::test_pools` |"

BROKEN: list[tuple[Rule, Files, str]] = [
    (code.long_functions, {"src/fairpool/a.py": LONG_WITH_A_LOOP}, "long has 63 lines"),
    (code.long_modules, {"src/fairpool/a.py": "x = 1\n" * 451}, "has 451 lines"),
    (code.vague_names, {"src/fairpool/utils.py": "x = 1"}, "'utils' does not say"),
    (code.vague_names, {"src/fairpool/queue_helpers.py": "x = 1"}, "'queue_helpers' does not say"),
    (code.vague_names, {"src/fairpool/core/__init__.py": ""}, "'core' does not say"),
    (code.vague_names, {"src/fairpool/scheduler/scheduler.py": "x = 1"}, "whole package's subject"),
    (code.missing_docstrings, {"src/fairpool/a.py": "x = 1"}, "has no docstring"),
    (code.missing_docstrings, {"src/fairpool/__init__.py": ""}, "has no docstring"),
    (code.empty_modules, {"tests/test_later.py": '"""Soon."""'}, "holds nothing"),
    (code.empty_modules, {"src/fairpool/a.py": ""}, "holds nothing"),
    (
        code.unused_modules,
        {"src/fairpool/a.py": "x = 1", "src/fairpool/b.py": "import os"},
        "imported by nothing",
    ),
    (code.foreign_imports, {"src/fairpool/model/a.py": "import numpy as np"}, "may not import numpy"),
    (code.foreign_imports, {"src/fairpool/scheduler/a.py": "from pydantic import BaseModel"}, "pydantic"),
    (code.acting_code, {"src/fairpool/scheduler/a.py": "print(1)"}, "print() acts"),
    (code.acting_code, {"src/fairpool/model/a.py": "text = open('a').read()"}, "open() acts"),
    (code.acting_code, {"src/fairpool/scheduler/a.py": "x = np.random.default_rng(0)"}, "random numbers"),
    (texts.stray_files, {"src/fairpool/plan.py~": ""}, "leftover"),
    (texts.stray_files, {"docs/.DS_Store": ""}, "leftover"),
    (texts.large_files, {"docs/video.txt": "x" * (texts.LARGEST_BYTES + 1)}, "larger than 1 MiB"),
    (texts.foreign_addresses, {"a.md": "see https://" + "py" + "pi.org/project/x"}, "registry"),
    (texts.foreign_addresses, {"a.txt": "--extra-index" + "-url x"}, "package index"),
    (texts.foreign_addresses, {"a.md": "cd /ho" + "me/ada/fairpool"}, "a path of one machine"),
    (texts.foreign_addresses, {"a.py": 'x = "/ro' + 'ot/x"'}, "a path of one machine"),
    (texts.foreign_addresses, {"a.md": "C:" + "\\Users\\ada"}, "a path of one machine"),
    (words.private_words, {"src/fairpool/a.py": "# for " + "who" + "ever reads it"}, "name the role"),
    (words.private_words, {"docs/a.md": "The NUR" + "SERY forks."}, "a fork server"),
    (words.private_words, {"tests/test_a.py": "def test_no" + "body_waits(): ..."}, "name the role"),
    (words.private_names, {"src/fairpool/a.py": "class Ledger" + "Books: ..."}, "cache, ledger"),
    (words.private_names, {"src/fairpool/a.py": "def f(sto" + "ry): ..."}, "a scenario"),
    (words.private_names, {"tests/control/ho" + "use.py": "x = 1"}, "a control plane"),
    (
        words.doubled_classes,
        {"src/fairpool/a.py": "class Pace: ...", "src/fairpool/b.py": "class Pace: ..."},
        "the class Pace is also defined in src/fairpool/a.py",
    ),
    (texts.loose_pins, {"constraints.txt": "numpy>=2"}, "not name==version"),
    (texts.loose_pins, {"constraints.txt": "numpy @ https://somewhere/numpy.whl"}, "not name==version"),
    (texts.loose_pins, {"constraints.txt": "numpy==2.4.6 --hash=sha256:1"}, "not name==version"),
    (texts.changelog_fragments, {"changelog.d/news.md": "x"}, "is not named"),
    (
        texts.unlisted_decisions,
        {"docs/decisions/README.md": "", "docs/decisions/0001-a.md": ""},
        "not linked",
    ),
    (texts.broken_links, {"README.md": "[here](docs/nothing.md)"}, "links to docs/nothing.md"),
    (texts.broken_links, {"README.md": "[here](b.md#two)", "b.md": "# One"}, "links to b.md#two"),
    (texts.module_map, {"docs/reference/modules.md": "# Modules"}, "make golden"),
    (
        texts.module_map,
        {"docs/reference/modules.md": MAP, "src/fairpool/model/a.py": '"""Another thing."""'},
        "make golden",
    ),
    (texts.cited_code, {"ARCHITECTURE.md": "see `model/a.py`"}, "names model/a.py, which is not there"),
    (
        texts.cited_code,
        {"docs/a.md": "| x | `a.py`: `one`, `Two.three` |", "src/fairpool/a.py": "def one(): ..."},
        "a.py defines Two.three",
    ),
    (texts.feature_list, {"docs/features.md": DONE}, "which is not there"),
    (
        texts.feature_list,
        {"docs/features.md": DONE, "tests/test_pool.py": "def test_pool(): ..."},
        "not there",
    ),
    (texts.feature_list, {"docs/features.md": "| F-01 | pooling | done | – |"}, "without naming a test"),
    (texts.feature_list, {"docs/features.md": "| F-01 | pooling | soon | – |"}, "status 'soon'"),
    (texts.feature_list, {"docs/features.md": "| F-02 | projects | not yet | – |"}, "not F-01, F-02"),
    (texts.feature_list, {"docs/features.md": "| F-01 | pooling | done |"}, "3 columns instead of 4"),
]

FINE: list[tuple[Rule, Files]] = [
    (code.long_functions, {"src/fairpool/a.py": LONG_TABLE}),
    (code.long_functions, {"src/fairpool/a.py": MOSTLY_WORDS}),
    (code.long_functions, {"tests/test_a.py": LONG_WITH_A_LOOP}),
    (code.long_modules, {"src/fairpool/a.py": "x = 1\n" * 450}),
    (code.vague_names, {"src/fairpool/fairshare.py": "", "tests/common.py": ""}),
    (code.missing_docstrings, {"src/fairpool/a.py": '"""A."""\nx = 1', "tests/test_a.py": "x = 1"}),
    (code.empty_modules, {"src/fairpool/__init__.py": "", "src/fairpool/a.py": "x = 1"}),
    (code.unused_modules, {"src/fairpool/a.py": "", "src/fairpool/__init__.py": "from .a import x"}),
    (code.unused_modules, {"src/fairpool/a.py": "", "src/fairpool/__init__.py": "from . import a"}),
    (code.unused_modules, {"src/fairpool/a.py": "", "tests/test_a.py": "import fairpool.a"}),
    (code.unused_modules, {"src/fairpool/migrations/a.py": ""}),
    (code.unused_modules, {"src/fairpool/a.py": "", "pyproject.toml": 'x = "fairpool.a:main"'}),
    (code.unused_modules, {"src/fairpool/a.py": "", "src/fairpool/__init__.py": "x = 'fairpool.a:main'"}),
    (
        code.foreign_imports,
        {"src/fairpool/scheduler/a.py": "import json\nimport numpy\nimport fairpool.model"},
    ),
    (code.foreign_imports, {"src/fairpool/control/a.py": "import pydantic"}),
    (code.acting_code, {"src/fairpool/cli/a.py": "print(1)", "src/fairpool/model/a.py": "x = shop.open()"}),
    (
        words.private_words,
        {"STYLE.md": "not who" + "ever", "docs/decisions/a.md": "no" + "body", "src/fairpool/a.py": "x = 1"},
    ),
    (
        words.private_names,
        {"tests/test_a.py": "def test_all_is_told(): ...", "src/fairpool/a.py": "# the story\nx = 1"},
    ),
    (words.doubled_classes, {"src/fairpool/a.py": "class _A: ...", "src/fairpool/b.py": "class _A: ...\nclass A: ..."}),
    (texts.stray_files, {"README.md": ""}),
    (texts.large_files, {"tests/conformance/cases/a.json": "x" * (texts.LARGEST_BYTES + 1)}),
    (texts.foreign_addresses, {"a.md": "POST /api/workloads/x, ./home/x, ~/work/x, docs/root/x, /tmp/x"}),
    (
        texts.loose_pins,
        {"constraints.txt": "# why\na-b==1.2\n\nnumpy==2.4.6 ; python_full_version < '3.12'\n"},
    ),
    (texts.changelog_fragments, {"changelog.d/README.md": "", "changelog.d/fair-share.added.md": ""}),
    (
        texts.unlisted_decisions,
        {"docs/decisions/README.md": "[a](0001-a.md)", "docs/decisions/0001-a.md": ""},
    ),
    (
        texts.broken_links,
        {"docs/a.md": "[b](../b.md#one-two) [c](https://example.org)", "b.md": "## One, two"},
    ),
    (texts.broken_links, {"a.md": "`[no](link.md)`\n```\n[nor](this.md)\n```\n"}),
    (texts.cited_code, {"docs/a.md": "`a.py`: `one`, `TWO`", "src/fairpool/a.py": "TWO = 2\ndef one(): ..."}),
    (texts.cited_code, {"docs/decisions/0001.md": "`gone.py`: `gone`"}),
    (texts.module_map, {"docs/reference/modules.md": MAP, "src/fairpool/model/a.py": '"""A thing."""'}),
    (texts.feature_list, {"docs/features.md": DONE, "tests/test_pool.py": "def test_pools(): ..."}),
    (texts.feature_list, {"docs/features.md": "| F-01 | pooling | not yet | – |"}),
]


def _label(case: object) -> str:
    return str(getattr(case, "__name__", "")) if callable(case) else ""


@pytest.mark.parametrize(("rule", "files", "says"), BROKEN, ids=_label)
def test_a_broken_rule_is_noticed(rule: Rule, files: Files, says: str, tmp_path: Path) -> None:
    found = [str(finding) for finding in rule(_planted(tmp_path, files))]
    assert found, f"{rule.__name__} did not notice"
    assert any(says in finding for finding in found), found


@pytest.mark.parametrize(("rule", "files"), FINE, ids=_label)
def test_what_is_fine_is_left_alone(rule: Rule, files: Files, tmp_path: Path) -> None:
    assert [str(finding) for finding in rule(_planted(tmp_path, files))] == []


def test_every_rule_has_been_seen_failing() -> None:
    assert {*RULES, *NOTES} == {rule for rule, _, _ in BROKEN}


def test_the_checkout_itself_may_not_be_named(tmp_path: Path) -> None:
    tree = _planted(tmp_path, {"a.md": f"cd {tmp_path.resolve()}"})
    assert any("this very checkout" in str(finding) for finding in texts.foreign_addresses(tree))


def test_findings_fail_the_command_and_notes_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _planted(tmp_path, {"tests/a.py": "x = 1", "ARCHITECTURE.md": "# A", module_map.PAGE: module_map.HEAD})
    assert main([str(tmp_path)]) == 0
    _planted(tmp_path, {"src/fairpool/__init__.py": '"""A."""\n' + "x = 1\n" * 451})
    assert main([str(tmp_path)]) == 0
    assert "note: src/fairpool/__init__.py: has 452 lines" in capsys.readouterr().out
    _planted(tmp_path, {"old.orig": ""})
    assert main([str(tmp_path)]) == 1
    assert "old.orig: is a leftover (stray files)" in capsys.readouterr().out


def _planted(root: Path, files: Files) -> Tree:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Tree(root)
