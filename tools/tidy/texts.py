"""Rules about what is not code: stray files, foreign addresses, pins, links, and the feature list."""

import ast
import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import PurePosixPath

from tools import module_map as module_map_page
from tools.tidy.tree import Finding, Module, Tree

CITED = re.compile(r"`((?:[\w./-]+/)?\w+\.py)`((?:: (?:`[\w.]+`(?:, )?)+)?)")
"""`file.py`, or `file.py`: `name`, `name`."""
HISTORY = ("docs/decisions/", "docs/performance.md", "docs/critiques.md", "docs/features.md")

LARGEST_BYTES = 1 << 20
LARGE_DATA = ("tests/conformance/cases/", "tests/conformance/random/")

STRAY = (
    "*~",
    "*.swp",
    "*.swo",
    "*.orig",
    "*.rej",
    "*.bak",
    "*.tmp",
    "#*#",
    ".DS_Store",
    "Thumbs.db",
    "nohup.out",
)

# Written in parts, or this file would break its own rule.
_REGISTRIES = (
    "py" + "pi.org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "npm" + "js.com",
    "yarn" + "pkg.com",
)
_OTHER_REGISTRIES = ("crates" + ".io", "rubygems" + ".org", "anaconda" + ".org", "proxy.go" + "lang.org")
_INDEX_SETTINGS = ("index" + "-url", "find" + "-links", "trusted" + "-host")
_HOMES = ("home", "Users", "root", "work")
FOREIGN_ADDRESSES = (
    *((re.compile(re.escape(host), re.IGNORECASE), "names a package registry's host") for host in _REGISTRIES),
    *((re.compile(re.escape(host), re.IGNORECASE), "names a package registry's host") for host in _OTHER_REGISTRIES),
    *((re.compile(rf"--(extra-)?{setting}"), "chooses a package index for every user") for setting in _INDEX_SETTINGS),
    (re.compile(rf"(?<![\w.~$)}}/-])/(?:{'|'.join(_HOMES)})/(?!pod\b)[\w.]"), "names a path of one machine"),
    (re.compile(r"\b[A-Z]:\\Users\\"), "names a path of one machine"),
)

PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+(?P<marker> *; *[\w\s.'\"<>=!()]+)?")

FRAGMENT = re.compile(r"[a-z0-9][a-z0-9-]*\.(added|changed|fixed|removed)\.md")

LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
FENCED_OR_QUOTED = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`", re.MULTILINE | re.DOTALL)


STATUSES = ("done", "part", "not yet", "out of scope")
FEATURE_ROW = re.compile(r"\| *F-(?P<number>\d+) *\|(?P<cells>.*)\|")
TEST_NAMED = re.compile(r"`(tests/[^`\s]+)`")


def stray_files(tree: Tree) -> Iterator[Finding]:
    """What an editor or a merge left behind does not belong here."""
    for path in tree.paths:
        if any(fnmatch(PurePosixPath(path).name, pattern) for pattern in STRAY):
            yield Finding(path, 0, "is a leftover")


def large_files(tree: Tree) -> Iterator[Finding]:
    """Every clone contains the whole repository; only data we mean to keep may be large."""
    for path in tree.paths:
        if tree.size_bytes(path) > LARGEST_BYTES and not path.startswith(LARGE_DATA):
            yield Finding(path, 0, f"is larger than {LARGEST_BYTES >> 20} MiB and not in a data folder")


def foreign_addresses(tree: Tree) -> Iterator[Finding]:
    """Fairpool builds anywhere: no package registry's host, no path of one machine."""
    patterns = [*FOREIGN_ADDRESSES]
    if len(tree.root.parts) > 2:  # a folder right below the top, as in a container, is too short a name to look for
        checkout = re.compile(rf"(?<![\w.]){re.escape(str(tree.root))}\b")
        patterns.append((checkout, "names this very checkout"))
    for path in tree.paths:
        for number, line in enumerate((tree.text(path) or "").splitlines(), start=1):
            yield from (Finding(path, number, what) for pattern, what in patterns if pattern.search(line))


def loose_pins(tree: Tree) -> Iterator[Finding]:
    """The constraints file is name==version, with a marker where Pythons differ, and nothing else."""
    for number, line in enumerate((tree.text("constraints.txt") or "").splitlines(), start=1):
        if line.strip() and not line.startswith("#") and not PIN.fullmatch(line.strip()):
            yield Finding("constraints.txt", number, f"is not name==version: {line.strip()}")


def changelog_fragments(tree: Tree) -> Iterator[Finding]:
    """A fragment's name says what it is about and which heading it goes under."""
    for path in tree.paths:
        folder, name = posixpath.split(path)
        if folder == "changelog.d" and name != "README.md" and not FRAGMENT.fullmatch(name):
            yield Finding(path, 0, "is not named <topic>.<added|changed|fixed|removed>.md")


def unlisted_decisions(tree: Tree) -> Iterator[Finding]:
    """Every decision page is linked from the index."""
    listed = set(LINK.findall(tree.text("docs/decisions/README.md") or ""))
    for path in tree.paths:
        folder, name = posixpath.split(path)
        if folder == "docs/decisions" and name != "README.md" and name not in listed:
            yield Finding(path, 0, "is not linked from docs/decisions/README.md")


def broken_links(tree: Tree) -> Iterator[Finding]:
    """A relative link in Markdown leads to a file, and its anchor to a heading."""
    for path in tree.paths:
        if not path.endswith(".md"):
            continue
        prose = FENCED_OR_QUOTED.sub(_blank, tree.text(path) or "")
        for number, line in enumerate(prose.splitlines(), start=1):
            for target in LINK.findall(line):
                if not re.match(r"[a-z][a-z+.-]*:", target) and not _leads_somewhere(tree, path, target):
                    yield Finding(path, number, f"links to {target}, which is not there")


def module_map(tree: Tree) -> Iterator[Finding]:
    """The map of modules is what `make golden` makes of the docstrings."""
    if (tree.text(module_map_page.PAGE) or "") != module_map_page.page(tree):
        yield Finding(module_map_page.PAGE, 0, "is not what the docstrings say: run `make golden`")


def cited_code(tree: Tree) -> Iterator[Finding]:
    """A file that the explanations name is there, and defines what they say it defines."""
    files = {path for path in tree.paths if path.endswith((".py", ".toml"))}
    modules = {module.path: module for module in tree.modules}
    for page in tree.paths:
        if not fnmatch(page, "ARCHITECTURE.md") and not fnmatch(page, "CONTRIBUTING.md") and not _explains(page):
            continue
        for number, line in enumerate((tree.text(page) or "").splitlines(), start=1):
            for name, cited in CITED.findall(line):
                found = [path for path in files if path == name or path.endswith("/" + name)]
                if not found:
                    yield Finding(page, number, f"names {name}, which is not there")
                for each in re.findall(r"`([\w.]+)`", cited):
                    if found and not any(path in modules and defines(modules[path], each) for path in found):
                        yield Finding(page, number, f"says that {name} defines {each}, which it does not")


def _explains(page: str) -> bool:
    """Frozen pages (decisions) and lists of what was measured or changed may name code that is gone."""
    return page.startswith("docs/") and page.endswith(".md") and not page.startswith(HISTORY)


def defines(module: Module, name: str) -> bool:
    """Whether a module defines `name`, or `Class.name`, anywhere in it."""
    last = name.rpartition(".")[2]
    for node in module.nodes:
        match node:
            case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.ClassDef(name=found):
                pass
            case ast.Name(id=found, ctx=ast.Store()):
                pass
            case _:
                continue
        if found == last:
            return True
    return False


def feature_list(tree: Tree) -> Iterator[Finding]:
    """Every feature has its row, and one that is claimed names a test that exists."""
    path = "docs/features.md"
    numbers = []
    for line_number, line in enumerate((tree.text(path) or "").splitlines(), start=1):
        row = FEATURE_ROW.fullmatch(line.strip())
        if row is None:
            continue
        numbers.append(int(row["number"]))
        for what in _row_problems(tree, [cell.strip() for cell in row["cells"].split("|")]):
            yield Finding(path, line_number, f"F-{row['number']} {what}")
    if numbers != list(range(1, len(numbers) + 1)):
        yield Finding(path, 0, "the rows are not F-01, F-02, … in order, each once")


def _row_problems(tree: Tree, cells: list[str]) -> Iterator[str]:
    if len(cells) != 3:
        yield f"has {len(cells) + 1} columns instead of 4"
        return
    _, status, proof = cells
    tests = TEST_NAMED.findall(proof)
    if status not in STATUSES:
        yield f"has the status '{status}', which is none of: {', '.join(STATUSES)}"
    if status == "done" and not tests:
        yield "is called done without naming a test"
    yield from (f"names {test}, which is not there" for test in tests if not _test_exists(tree, test))


def _test_exists(tree: Tree, test: str) -> bool:
    path, *names = test.split("::")
    if not names:
        return tree.exists(path)
    text = tree.text(path) or ""
    return all(re.search(rf"\b(def|class) {re.escape(name.split('[')[0])}\b", text) for name in names)


def _leads_somewhere(tree: Tree, source: str, target: str) -> bool:
    place, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), place)) if place else source
    if not tree.exists(path):
        return False
    return not anchor or not path.endswith(".md") or anchor in _anchors(tree.text(path) or "")


def _anchors(markdown: str) -> set[str]:
    """The anchors that code hosts make of headings: lower case, no punctuation, spaces to dashes."""
    without_code = re.sub(r"^(```|~~~).*?^\1", "", markdown, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*)$", without_code, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def _blank(code: re.Match[str]) -> str:
    return "\n" * code[0].count("\n")
