#!/usr/bin/python3
"""Rejects what must not be in the tree: unfinished work, paths of one machine, unsafe functions, and words that docs/glossary.md replaces.

    tests/lint/words.py            check the tree, after the self-test
    tests/lint/words.py WORD...    list where these words are (of any list or none), to prepare a new row
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SELF = "tests/lint/words.py"
EVERYWHERE = [
    (re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"), "unfinished work"),
    (re.compile(r"/(work|root|home/[a-z]+)/(main|shared|src|bailiff)\b"), "a path of one machine"),
    (re.compile(r"/tmp/brief"), "a path of one machine"),
    (re.compile(r"^(<{7}|>{7}|={7})( |$)", re.M), "a conflict marker"),
]
CODE = [
    (re.compile(r"\bnot (yet )?implemented\b", re.I), "a promise instead of code"),
    (re.compile(r"[^\t\n -~\u00a0-\uffff\U00010000-\U0010ffff]"), "a control character"),
    (re.compile(r"[ \t]+$", re.M), "white space at the end of a line"),
    (re.compile(r"^ {4,}[^\s\\]", re.M), "spaces where a tab belongs"),
]
UNSAFE = (re.compile(r"\b(alloca|atoi|atol|putenv)\s*\("), "an unsafe function")

# The old vocabulary: words and what to write instead. Checked in file names, identifiers, comments, strings and documents; a word ends
# at everything but a letter, so that `mend_file` is found and `amend` is not. Tests are free to use a word as data: see EXCEPT.
OLD_WORDS = [
    ("whoever", "the caller, the owner, regardless of who"),
    ("somebody", "a person, another user"),
    ("besides", "in addition to, other than"),
    ("heirs?", "session reaper"),
    ("mend|mends|mended|mending", "fix, repair"),
    ("deeds?", "transaction"),
    ("keeper", "placeholder helper"),
    ("so long(?! as)|for long", "for that duration"),
    ("taken for", "treated as, confused with"),
    ("in force", "in effect"),
    ("any more", "no longer"),
    ("goes on", "continues"),
    ("looked at", "checked, read"),
    ("stands? beside", "next to, together with"),
    ("side by side", "in parallel, adjacent"),
    ("sorry", "say what failed"),
    ("in vain", "without success, timed out"),
    ("(?:built|made|done) ahead", "prebuilt, in advance"),
]


def word_rule(words):
    """A regular expression for whole words; a blank in it also matches a line break or an underscore."""
    return re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])".replace(" ", r"[\s_]+"), re.I)


OLD = [(word_rule(words), f"write {instead!r} instead") for words, instead in OLD_WORDS]
ANY_OLD = word_rule("|".join(words for words, _ in OLD_WORDS))  # most files have none: one search instead of one per row

# Files that quote the old words, and data: (file, text that matched in lower case).
QUOTES = ("docs/glossary.md", "CHANGELOG.md")
EXCEPT = set()

BAD_SAMPLE = '''
static int mend_file(void), goes_on(void); /* whoever owns it */
#define HOOKS_BESIDES 1
err_set(e, "the rules in force are looked at by somebody, so long it goes on");
The heir is taken for a keeper; it is not there any more, for long, and stands beside its DEEDS, side by side. Sorry. Built ahead in vain.
'''
GOOD_SAMPLE = "amend --so-longer, so long as, their, insight, enforce, sidebyside, recommended, housekeeper"


def old_words(text):
    """(position, text, what to write) of each old word."""
    return [(m.start(), m.group(), instead) for rule, instead in OLD for m in rule.finditer(text)] if ANY_OLD.search(text) else []


def self_test():
    """Every row finds its word in the bad sample, and none finds anything in the good one."""
    missed = [word for (word, _), (rule, _) in zip(OLD_WORDS, OLD) if not rule.search(BAD_SAMPLE)]
    return [f"self-test: '{word}' is not found in the bad sample" for word in missed] + \
        [f"self-test: {text!r} is found in the good sample" for _, text, _ in old_words(GOOD_SAMPLE)]


def comment_free(text):
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", "", m.group()), text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_file(path, text):
    problems = []
    rules = [(rule, what, text) for rule, what in EVERYWHERE]
    if path.endswith((".c", ".h")):
        rules += [(rule, what, text) for rule, what in CODE]
        if not path.startswith("tests/"):
            rules.append((*UNSAFE, comment_free(text)))
    for rule, what, where in rules:
        problems += [f"{path}:{line_of(where, m.start())}: {what}: {m.group().strip()[:60]!r}" for m in rule.finditer(where)]
    guard = re.search(r"^#ifndef (BAILIFF_\w+)$", text, re.M) if path.endswith(".h") else None
    if guard and not guard.group(1).endswith("_" + os.path.basename(path)[:-2].upper() + "_H"):
        problems.append(f"{path}: the include guard {guard.group(1)} is not named after the file")
    if path not in QUOTES:
        problems += [f"{path}: in the file's name: {found!r}; {instead}" for _, found, instead in old_words(path)]
        problems += [f"{path}:{line_of(text, at)}: {found!r}; {instead}" for at, found, instead in old_words(text)
                     if (path, found.lower()) not in EXCEPT]
    return problems


def files():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in out.split("\n"):
        full = os.path.join(ROOT, path)
        if path and path != SELF and path != "LICENSE" and not path.endswith(".png") and os.path.isfile(full) and not path.startswith(("tests/fuzz/corpus/", "tests/prove/stores/", "supervisor/console/vendor/")):
            with open(full, "rb") as f:
                yield path, f.read()


def main(wanted):
    if wanted:
        global ANY_OLD
        ANY_OLD = word_rule("|".join(wanted))
        OLD[:] = [(ANY_OLD, "listed")]
    problems, count = [] if wanted else self_test(), 0
    for path, raw in files():
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            problems.append(f"{path}: not UTF-8")
            continue
        count += 1
        if raw and not raw.endswith(b"\n"):
            problems.append(f"{path}: no newline at the end")
        problems += check_file(path, text)
    print("\n".join(problems) if problems else f"{count} files, {len(OLD_WORDS)} old words")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
