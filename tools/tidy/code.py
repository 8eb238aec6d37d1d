"""Rules about Python files: length, names, docstrings, dead modules, and what deciding code may not do.

What import-linter can say is said in pyproject.toml; here is the rest.
"""

import ast
import sys
from collections.abc import Iterator

from tools.tidy.tree import Finding, Module, Tree

FUNCTION_LINES = 60
MODULE_LINES = 450

# A module with such a name has no purpose yet, or two.
VAGUE_WORDS = frozenset(
    {"util", "utils", "helper", "helpers", "common", "misc", "manager", "managers"}
    | {"handler", "handlers", "service", "services", "stuff"}
)
VAGUE_NAMES = VAGUE_WORDS | {"base", "core", "lib", "shared", "general"}

# Packages whose functions depend on their arguments alone, and the foreign libraries each may use.
DECIDING = {"fairpool.model": frozenset[str](), "fairpool.scheduler": frozenset({"numpy"})}
ACTING_CALLS = frozenset({"open", "print", "input", "breakpoint", "exec", "eval", "__import__"})

CONTROL_FLOW = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match)

# Python starts or finds these by name; no module imports them.
STARTED_BY_NAME = frozenset({"__main__", "conftest"})


def long_functions(tree: Tree) -> Iterator[Finding]:
    """A function fits on a screen, unless it is a table: no branches, no loops."""
    for module in tree.modules_in("src"):
        for node in module.nodes:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if (node.end_lineno or node.lineno) - node.lineno < FUNCTION_LINES:
                continue
            lines = _lines_of_code(module, node)
            if lines > FUNCTION_LINES and any(isinstance(part, CONTROL_FLOW) for part in ast.walk(node)):
                what = f"{node.name} has {lines} lines of code; more than {FUNCTION_LINES} is hard to read"
                yield Finding(module.path, node.lineno, what)


def long_modules(tree: Tree) -> Iterator[Finding]:
    """A module about one thing is rarely long. A note for the author, not an error."""
    for module in tree.modules_in("src"):
        lines = len(module.text.splitlines())
        if lines > MODULE_LINES:
            yield Finding(module.path, 0, f"has {lines} lines; is it about more than one thing?")


def vague_names(tree: Tree) -> Iterator[Finding]:
    """A module is named after what it is about, and not after everything its package is about."""
    for module in tree.modules_in("src", "tools", "bench"):
        word = module.name.split(".")[-1]
        if word in VAGUE_NAMES or VAGUE_WORDS.intersection(word.split("_")):
            yield Finding(module.path, 0, f"'{word}' does not say what the module is about")
        if not module.is_package and module.name.split(".")[-2:-1] == [word]:
            yield Finding(module.path, 0, f"'{word}' is its whole package's subject and would swallow it")


def missing_docstrings(tree: Tree) -> Iterator[Finding]:
    """A module opens with a few lines on what it is about."""
    for module in tree.modules_in("src", "tools", "bench"):
        if ast.get_docstring(module.syntax) is None:
            yield Finding(module.path, 0, "has no docstring saying what it is about")


def empty_modules(tree: Tree) -> Iterator[Finding]:
    """A module that holds nothing is a promise in the wrong place."""
    for module in tree.modules:
        body = module.syntax.body
        holds_nothing = not body or (len(body) == 1 and ast.get_docstring(module.syntax) is not None)
        if holds_nothing and not module.is_package:
            yield Finding(module.path, 0, "holds nothing; it can come back when it has content")


def unused_modules(tree: Tree) -> Iterator[Finding]:
    """Every module of the package is imported by something, be it a test, or started by a command."""
    imported = {name for module in tree.modules for name, _ in _imports(module)}
    imported |= {name for module in tree.modules_in("src") for name in _named(module)}
    commands = tree.text("pyproject.toml") or ""
    for module in tree.modules_in("src"):
        alive = module.name in imported or f'"{module.name}:' in commands or module.stem in STARTED_BY_NAME
        alive |= ".migrations." in module.name  # Alembic finds its steps in their folder
        if not alive and not module.is_package:
            yield Finding(module.path, 0, "is imported by nothing; delete it, or use it")


def _named(module: Module) -> Iterator[str]:
    """Modules that are imported by name when a command is called: `lazy("...", "fairpool.cli.plan:plan")`."""
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            if name.startswith("fairpool.") and name.replace(".", "").replace("_", "").isalnum():
                yield name


def foreign_imports(tree: Tree) -> Iterator[Finding]:
    """The model needs the standard library only, the scheduler NumPy besides."""
    for module in tree.modules_in("src"):
        package = ".".join(module.name.split(".")[:2])
        if package not in DECIDING:
            continue
        allowed = sys.stdlib_module_names | DECIDING[package] | {"fairpool"}
        for name, line in _imports(module):
            if name.split(".")[0] not in allowed:
                yield Finding(module.path, line, f"{package} may not import {name}")


def acting_code(tree: Tree) -> Iterator[Finding]:
    """Deciding code opens, prints and draws no random numbers: no import shows it."""
    for module in tree.modules_in("src"):
        if ".".join(module.name.split(".")[:2]) not in DECIDING:
            continue
        for node in module.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ACTING_CALLS:
                yield Finding(module.path, node.lineno, f"{node.func.id}() acts; deciding code only returns values")
            if isinstance(node, ast.Attribute) and ast.unparse(node) in {"np.random", "numpy.random"}:
                yield Finding(module.path, node.lineno, "random numbers: the same snapshot must give the same plan")


def _lines_of_code(module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines that hold code: a rule that counted comments and docstrings would be a rule against them."""
    inside = set(range(function.lineno, (function.end_lineno or function.lineno) + 1))
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside -= _docstring_lines(node)
    lines = module.text.splitlines()
    return sum(1 for n in inside if (code := lines[n - 1].strip()) and not code.startswith("#"))


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[int]:
    if ast.get_docstring(node) is None:
        return set()
    first = node.body[0]
    return set(range(first.lineno, (first.end_lineno or first.lineno) + 1))


def _imports(module: Module) -> Iterator[tuple[str, int]]:
    """Every dotted name a module might be importing, with its line; `from a import b` counts as a and a.b."""
    package = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield source, node.lineno
            yield from ((f"{source}.{alias.name}", node.lineno) for alias in node.names)
