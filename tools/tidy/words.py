"""Rules about names and language: words that a reader would have to look up, and classes with one name in two modules.

STYLE.md, section 13, says why: the words are those of Kubernetes and Slurm, and a role or a component is named.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tools.tidy.tree import Finding, Module, Tree

# In code, comments and pages. Each hides which role or component is meant, or was a word of ours for a thing that the
# field has a word for.
WORDS = {
    **dict.fromkeys(("nobody", "somebody", "everybody", "anybody", "whoever", "whomever"), "name the role"),
    **dict.fromkeys(("stranger", "strangers", "visitor", "visitors"), "an unknown caller, a client, an orphan"),
    **dict.fromkeys(("chronicle", "spectator", "mishap", "mishaps"), "a log, a callback, a fault"),
    **dict.fromkeys(("deed", "deeds"), "an action"),
    **dict.fromkeys(("keeper", "nursery", "bailiff", "signpost"), "a shim, a fork server, a reaper, a router"),
    "premises": "a data directory",
}

# As names of variables, functions, classes and modules. In prose they are ordinary English.
NAMES = {
    "told": "reported, given, expected",
    "tell": "report, send, print",
    "lives": "pods",
    "books": "cache, ledger",
    "standings": "states",
    "house": "a control plane, a repository",
    "stage": "a simulated cluster",
    "wish": "a request, a preference",
    "strike": "apply a fault",
    "story": "a scenario, a log, steps",
}

# Pages that quote the words in order to advise against them, and frozen pages.
QUOTES = ("STYLE.md", "docs/decisions/", "changelog.d/", "CHANGELOG.md", "tools/tidy/words.py", "tests/golden/")
FOLDERS = ("src", "tests", "tools", "docs", "bench")

# Path, word, and why it stays there.
ALLOWED_WORDS: dict[tuple[str, str], str] = {
    ("src/fairpool/api/settings.py", "stage"): "a field of the reference's API: the maturity of a setting",
}

# Classes that may have one name in two modules, and why.
ALLOWED_CLASSES: dict[str, str] = {
    "Refused": "one noun on both sides of the API: raised by a handler, and by the client that is answered so",
}

PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def private_words(tree: Tree) -> Iterator[Finding]:
    """No word that a reader of the field's documentation would have to look up."""
    for path in tree.paths:
        folder = path.partition("/")[0]
        if not path.endswith((".py", ".md", ".toml")) or path.startswith(QUOTES):
            continue
        if folder in FOLDERS or "/" not in path:
            for number, line in enumerate((tree.text(path) or "").splitlines(), start=1):
                for word in dict.fromkeys(part.lower() for part in PART.findall(line)):
                    if word in WORDS and (path, word) not in ALLOWED_WORDS:
                        yield Finding(path, number, f"'{word}': say what is meant ({WORDS[word]})")


def private_names(tree: Tree) -> Iterator[Finding]:
    """No such word in the name of a variable, function, class or module either."""
    for module in tree.modules_in("src", "tests", "tools", "bench"):
        if module.path.startswith(QUOTES):
            continue
        for name, line in sorted({*_names(module), (module.stem, 0)}):
            for word in PART.findall(name):
                if word.lower() in NAMES and (module.path, word.lower()) not in ALLOWED_WORDS:
                    yield Finding(module.path, line, f"the name {name}: say what is meant ({NAMES[word.lower()]})")


def _names(module: Module) -> Iterator[tuple[str, int]]:
    for node in module.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield ("" if name.startswith("test_") else name), node.lineno  # the name of a test is a sentence
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def doubled_classes(tree: Tree) -> Iterator[Finding]:
    """A public class has a name of its own: an import or a search finds one thing."""
    defined: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for module in tree.modules_in("src"):
        for node in module.syntax.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append((module.path, node.lineno))
    for name, places in defined.items():
        if name not in ALLOWED_CLASSES:
            for path, line in places[1:]:
                yield Finding(path, line, f"the class {name} is also defined in {places[0][0]}")
