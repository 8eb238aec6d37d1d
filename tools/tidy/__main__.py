"""Apply every house rule to the repository: `python -m tools.tidy [FOLDER]`."""

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.tidy import code, texts, words
from tools.tidy.tree import Finding, Tree

RULES: tuple[Callable[[Tree], Iterator[Finding]], ...] = (
    code.long_functions,
    code.vague_names,
    code.missing_docstrings,
    code.empty_modules,
    code.unused_modules,
    code.foreign_imports,
    code.acting_code,
    texts.stray_files,
    texts.large_files,
    texts.foreign_addresses,
    texts.loose_pins,
    texts.changelog_fragments,
    texts.unlisted_decisions,
    texts.broken_links,
    texts.module_map,
    texts.cited_code,
    texts.feature_list,
    words.private_words,
    words.private_names,
    words.doubled_classes,
)
NOTES: tuple[Callable[[Tree], Iterator[Finding]], ...] = (code.long_modules,)


def main(arguments: list[str]) -> int:
    tree = Tree(Path(arguments[0]) if arguments else Path.cwd())
    for note in NOTES:
        for finding in sorted(note(tree)):
            print(f"note: {finding}")
    findings = [(finding, rule.__name__) for rule in RULES for finding in sorted(rule(tree))]
    for finding, rule_name in findings:
        print(f"{finding} ({rule_name.replace('_', ' ')})")
    print(f"tidy: {len(RULES)} rules, {len(tree.paths)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    gc.disable()  # the syntax trees of all modules are kept to the end; collecting would walk them again and again
    sys.exit(main(sys.argv[1:]))
