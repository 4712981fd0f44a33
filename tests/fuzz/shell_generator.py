"""Random shell scripts for shell_differential.py.

Every command is `kN` with a number of its own as first argument, so that one command cannot be mistaken for another: `k3 17`. The rest is
whatever may hide a command from a reader: quotes, continuation lines, here-documents, substitutions, compound commands, comments. Half of
the scripts are then damaged a little, because the border between well formed and not is where readers disagree.
"""

import random

NAMES = [f"k{i}" for i in range(10)]      # the shells define them: the even ones succeed, the odd ones fail
DAMAGE = "\\\n'\"$`(){}<>|&; \t#-!~*?[]=EOF0k"
DELIMITERS = ["EOF", "EOF", "E", "E F", "EO\tF", "\tE", "", "E\\", "E$x", "-", "E\nF", "k1 1", "'", "E}", "a)", "$(k1", "`"]
PLAIN = ["a", "b", "x1", "-n", "a=b", "=", "%", ":", ",", "/", "a.b", "^", "]", "}", "{", "!", "+"]


class Script:
    """One script, written from left to right. Here-documents wait in `pending` for the next newline."""

    def __init__(self, rng, depth=0, calls=True):
        self.rng, self.depth, self.calls = rng, depth, calls
        self.text, self.pending, self.functions = [], [], []
        self.number = [0]
        self.backquoted = False

    # ---- tools ----

    def put(self, *parts):
        self.text += parts

    def chance(self, percent):
        return self.rng.random() * 100 < percent

    def one_of(self, *choices):
        return self.rng.choice(choices)

    def newline(self):
        self.put("\n")
        pending, self.pending = self.pending, []
        for body in pending:
            self.put(body)

    def inner(self):
        """A script inside this one, with its own lines."""
        s = Script(self.rng, self.depth + 1, self.calls)
        s.number, s.functions, s.backquoted = self.number, self.functions, self.backquoted
        return s

    def nested(self, commands=2):
        """A list of its own as text. Here-documents that were not begun yet follow the line around it."""
        s = self.inner()
        s.list(commands)
        if s.pending and self.chance(70):
            s.newline()
        self.pending += s.pending
        return "".join(s.text)

    def blank(self):
        return self.rng.choices([" ", "  ", "\t", " \\\n", "\\\n "], [80, 5, 5, 6, 4])[0]

    def deep(self):
        return self.depth >= 3

    # ---- words ----

    def split(self, text):
        """A literal in some quoting, perhaps a different one for each character."""
        out = ""
        for c in text:
            kind = self.rng.choices(["plain", "single", "double", "slash", "ansi", "empty", "joined"], [60, 6, 6, 8, 5, 5, 10])[0]
            if kind == "single" and c != "'":
                out += f"'{c}'"
            elif kind == "double" and c not in '"\\$`':
                out += f'"{c}"'
            elif kind == "slash" and c != "\n":
                out += "\\" + c
            elif kind == "ansi":
                out += f"$'\\x{ord(c):02x}'"
            elif kind == "empty":
                out += self.one_of("''", '""') + c
            elif kind == "joined":
                out += "\\\n" + c
            else:
                out += c
        return out

    def name(self):
        name = self.rng.choice(NAMES)
        return self.split(name) if self.chance(20) else name

    def substitution(self, quoted=False):
        """$(…) and its relatives."""
        if self.deep():
            return "$x"
        kind = self.rng.randrange(5)
        if kind == 0 and not self.backquoted:
            s = self.inner()
            s.backquoted = True
            s.list(1)
            if s.pending:
                s.newline()
            text = "".join(s.text).replace("\\", "\\\\").replace("`", "\\`").replace("$", self.one_of("$", "\\$"))
            if quoted:
                text = text.replace('"', '\\"')
            return f"`{text}`"
        text = self.nested()
        if kind == 1:
            return f"$({self.comment()}\n{text}\n)"
        if kind == 2 and not quoted:
            return f"{self.one_of('<', '>')}({text})"
        return self.one_of("$(", "$( ") + text + self.one_of(")", " )", "\n)")

    def parameter(self, quoted):
        word = self.double() if self.chance(40) and not self.deep() else self.substitution(quoted) if self.chance(60) else self.rng.choice(PLAIN)
        if self.chance(15):
            word = f"'{word}'" if "'" not in word else word
        return self.one_of("${x:-%s}", "${x-%s}", "${x:=%s}", "${x+%s}", "${y:+%s}", "${y#%s}", "${y%%%%%s}", "${y/%s/b}", "${y//a/%s}", "${y^%s}", "${y:%s}",
                           "${x:-\"%s\"}", "${a[%s]}", "${#x}%s") % word

    def arithmetic(self):
        if self.chance(30):
            return "$((" + self.one_of("1+2", "x=3", "(1)*(2)", "1<<2", "y", "'1'") + "))"
        return self.one_of("$((%s))", "$((1+%s))", "$(( (%s) ))", "$[%s]") % (self.substitution(True) if not self.deep() else "1")

    def double(self):
        out = ""
        for _ in range(self.rng.randrange(3)):
            kind = self.rng.randrange(8)
            if kind == 0 and not self.deep():
                self.depth += 1
                out += self.substitution(True)
                self.depth -= 1
            elif kind == 1:
                out += self.one_of("\\$", "\\`", '\\"', "\\\\", "\\a", "\\\n", "\n", "'", "$", "\\'", "#", "$'a'")
            elif kind == 2 and not self.deep():
                self.depth += 1
                out += self.parameter(True)
                self.depth -= 1
            elif kind == 3:
                out += self.one_of("$x", "${y}", "$1", "$@", "$#", "$?")
            else:
                out += self.rng.choice(PLAIN)
        return f'"{out}"'

    def piece(self):
        kind = self.rng.choices(["plain", "single", "double", "ansi", "locale", "slash", "variable", "substitution", "parameter", "arithmetic", "brace",
                                 "glob", "joined"], [30, 10, 14, 8, 3, 6, 6, 8, 6, 3, 4, 2, 5])[0]
        if kind == "single":
            return "'" + self.one_of("", "a b", "\\", "\\\n", "\n", '"', "$(k1 0)", "`k1 0`", "#", "<<E", ")", "}") + "'"
        if kind == "double":
            return self.double()
        if kind == "ansi":
            return "$'" + self.one_of("a", "\\'", "\\\\", "\\n", "\\x41", "\\101", "\\u41", '"', "\\cA", "`", "$(k1 0)", "\\\n") + "'"
        if kind == "locale":
            return "$" + self.double()
        if kind == "slash":
            return "\\" + self.one_of("a", "'", '"', "\\", "$", "`", "(", ")", "#", " ", "\n", ";", "&", "{", "<")
        if kind == "variable":
            return self.one_of("$x", "$y", "${y}", "$1", "$#", "$$", "$?", "$-", "$@")
        if kind == "substitution":
            return self.substitution()
        if kind == "parameter" and not self.deep():
            self.depth += 1
            text = self.parameter(False)
            self.depth -= 1
            return text
        if kind == "arithmetic":
            return self.arithmetic()
        if kind == "brace":
            return self.one_of("{a,b}", "{1..3}", "{a,{b,c}}", "{a,'b,c'}", "{,a}", "{a}", "{a,b", "{\"a\",$x}")
        if kind == "glob":
            return self.one_of("*", "?", "[a]", "[!a]*", "~", "~/a")
        if kind == "joined":
            return "\\\n"
        return self.rng.choice(PLAIN)

    def word(self):
        return "".join(self.piece() for _ in range(self.rng.choices([1, 2, 3], [70, 20, 10])[0]))

    # ---- here-documents ----

    def delimiter(self):
        """How a delimiter is written, and what a line must be to end the document."""
        text = self.rng.choice(DELIMITERS)
        kind = self.rng.randrange(9)
        if kind <= 2 and text and not set(text) & set(" \t\n'\\$()`\"}"):
            return text, text, False
        if kind == 3 and "'" not in text:
            return f"'{text}'", text, True
        if kind == 4 and not set(text) & set('"\\$`'):
            return f'"{text}"', text, True
        if kind == 5:
            ansi = "".join(f"\\x{ord(c):02x}" if self.chance(30) else c for c in text).replace("\n", "\\n").replace("\t", "\\t")
            return f"$'{ansi}'", self.one_of(text, "$" + ansi), True
        if kind == 6 and not set(text) & set('"\\$`'):
            return f'$"{text}"', self.one_of(text, "$" + text), True
        if kind == 7 and text and "\n" not in text and not set(text) & set("'\\$"):
            return self.split(text), text, None
        return "EOF", "EOF", False

    def body(self, end, quoted, strip):
        lines = []
        for _ in range(self.rng.randrange(4)):
            kind = self.rng.randrange(14)
            if kind <= 2:
                lines.append(f"{self.rng.choice(NAMES)} {self.fresh()}")
            elif kind == 3:
                lines.append(self.one_of("", "\t", " ", "\t\t") + end + self.one_of("", " ", "\\", "x", "\t"))
            elif kind == 4 and end:
                at = self.rng.randrange(len(end) + 1)
                lines.append(self.one_of("", "", "\t") + end[:at] + "\\\n" + self.one_of("", "", "\t") + end[at:])
            elif kind == 5:
                lines.append(self.one_of("a\\", "\\", "\\\\", "a\\\\\\", "\t\\"))
            elif kind == 6 and not self.deep():
                lines.append(self.substitution(True))
            elif kind == 7 and not self.deep():
                self.depth += 1
                lines.append(self.parameter(True))
                self.depth -= 1
            elif kind == 8:
                lines.append(self.one_of("\\$(k1 0)", "'$(k2 0)'", "\\`k1 0\\`", "\"", "'", "$", "${", "`", "$(", ")", "#", "$'a'", "\\\"$x"))
            elif kind == 9:
                lines.append("\t" + f"{self.rng.choice(NAMES)} {self.fresh()}")
            elif kind == 11 and self.chance(50):
                lines.append(end + self.one_of(")", " )", "x)", "`"))
            elif kind == 10 and "\n" in end:
                lines.append(end.split("\n")[0])
            else:
                lines.append(self.rng.choice(PLAIN))
        tabs = self.one_of("", "\t", "\t\t") if strip else ""
        last = tabs + end + ("\n" if self.chance(97) else "") if self.chance(95) else ""
        return "".join(line + "\n" for line in lines) + last

    def heredoc(self):
        written, end, quoted = self.delimiter()
        strip = self.chance(35)
        number = self.one_of("", "", "", "0", "3")
        self.pending.append(self.body(end, quoted, strip))
        return number + ("<<-" if strip else "<<") + self.one_of("", "", " ", "\\\n") + written

    # ---- commands ----

    def fresh(self):
        self.number[0] += 1
        return str(self.number[0])

    def comment(self):
        return self.one_of("", "", "#", "# a'b", '# "', "# \\", "# )", "# `", "# <<E", "# $(k1 0", "#}")

    def moved_word(self):
        """A redirection, which bash moves behind the command in a substitution, and what is then in front of it."""
        self.put(self.one_of(">f1", "2>f1", ">>f1 2>&1", "</dev/null", "&>f1", "{v}>f1", self.redirect()), " ", self.one_of("", "", "-p ", "-- ", "! ", "time ", "time -p ", "coproc "))

    def redirect(self):
        if self.chance(60):
            return self.heredoc()
        return self.one_of("<", ">", ">>", "2>", ">|", "<>") + self.one_of("/dev/null", "f1", '"f 2"') if self.chance(60) else \
            self.one_of("2>&1", ">&2", "<&0", "<<<%s" % self.word(), "&>f3", "|& k0 " + self.fresh(), "{v}>f4", "3<&-", "2>&-b", "3<&0-")

    def simple(self):
        words = []
        for _ in range(self.rng.choices([0, 1, 2], [80, 15, 5])[0]):
            words.append(self.one_of("x=", "y=", "x+=", "a[1]=") + (self.word() if self.chance(80) else f"({self.word()} {self.word()})"))
        name = self.name()
        words += [name, self.fresh()] if not self.chance(4) else [f"{{{name},{self.fresh()}}}"]
        words += [self.word() for _ in range(self.rng.choices([0, 1, 2], [50, 35, 15])[0])]
        if self.chance(30):
            words.insert(self.rng.randrange(len(words) + 1) if self.chance(30) else len(words), self.redirect())
        self.put(self.blank().join(words))

    def wrapped(self):
        text = f"{self.rng.choice(NAMES)} {self.fresh()}" if self.chance(60) or self.deep() else self.nested(1)
        quoted = "'" + text.replace("'", "'\\''") + "'"
        self.put(self.one_of("eval %s", "eval eval %s", "sh -c %s", "bash -c %s", "dash -c %s", "trap %s EXIT", "command eval %s", "bash -c %s a b", "env sh -c %s",
                             "sh -ec %s", "bash -euc %s", "bash -o posix -c %s", "sh -oc errexit %s", "bash -Oc globstar %s", "command env X=1 sh -c %s", "sh +c %s",
                             "bash -coo pipefail posix %s", "bash -rcfile f1 -c %s", "bash -c -- %s", "dash -c - %s", "builtin eval %s", "exec sh -c %s",
                             "bash -k -c %s", "sh -co nounset %s a") % quoted)

    def launched(self):
        """A program that runs the words behind it."""
        self.put(self.one_of("command", "env", "env x=1", "exec", "xargs", "xargs -n 1", "timeout 5", "nice", "nohup", "jobs -x", "command -p env", "env -i PATH=$PATH",
                             "env -S", "nice -n 1 env", "command --", "env --", "time -p"), " ")
        self.put(self.rng.choice(NAMES), " ", self.fresh(), self.one_of("", " " + self.word()))

    def stdin_shell(self):
        """A shell that reads a here-document."""
        self.put(self.one_of("sh", "bash", "dash", "bash -s", "sh -s a"), " ", self.heredoc())

    def compound(self):
        kind = self.rng.randrange(16)
        self.depth += 1
        if kind == 0:
            self.put("(", self.blank())
            self.list(2)
            self.put(self.blank(), ")")
        elif kind == 1:
            self.put("{", self.blank())
            self.list(2)
            self.end("}")
        elif kind == 2:
            self.put("if ")
            self.list(1)
            self.end("then ")
            self.list(1)
            if self.chance(40):
                self.end("else ")
                self.list(1)
            self.end("fi")
        elif kind == 3:
            self.put(self.one_of("while ", "until "))
            self.list(1)
            self.end("do ")
            self.list(1)
            self.end("break")
            self.end("done")
        elif kind == 4:
            self.put("for i in ", " ".join(self.word() for _ in range(self.rng.randrange(3))))
            self.end("do ")
            self.list(1)
            self.end("done")
        elif kind == 5:
            self.case()
        elif kind == 6:
            name = f"f{len(self.functions)}"
            self.put(name, self.one_of("()", " ( )", "()\n"), " { ")
            calls, self.calls = self.calls, False
            self.list(2)
            self.calls = calls
            self.end("}")
            self.functions.append(name)
        elif kind == 7:
            self.put("[[ ", self.one_of("-n %s", "a == %s", "%s = b", "! -z %s", "( -n %s )", "a =~ %s", "1 -eq 1 && -n %s") % self.word(), " ]]")
        elif kind == 8:
            self.put(self.one_of("((%s))", "(( %s ))", "((1+%s))") % (self.substitution(True) if self.chance(70) else self.one_of("1<<2", "x=1", "1", "(2)")))
        elif kind == 9:
            self.put("(( ", f"{self.rng.choice(NAMES)} {self.fresh()}", self.one_of(" ) )", "); k0 0)", "))"))
        elif kind == 10:
            self.put("! ")
            if self.chance(20):
                self.moved_word()
            self.simple()
        elif kind == 11:
            self.put(self.one_of("time ", "time -p "))
            if self.chance(30):
                self.moved_word()
            self.simple()
        elif kind == 12:
            self.put("coproc ")
            self.simple()
        elif kind == 13:
            self.put("alias a1=", self.split(f"{self.rng.choice(NAMES)} {self.fresh()} "))
            self.newline()
            self.put("a1 ", self.word())
        elif kind == 14:
            self.put("function f9 { ")
            self.list(1)
            self.end("}")
        else:
            self.put("for ((i=0;i<", self.one_of("1", "2", self.substitution(True)), ";i++))")
            self.end("do ")
            self.list(1)
            self.end("done")
        self.depth -= 1
        if self.chance(20):
            self.put(" ", self.redirect())

    def case(self):
        self.put("case ", self.word(), " in", self.one_of(" ", "\n") if not self.pending else " ")
        for _ in range(self.rng.randrange(1, 3)):
            self.put(self.one_of("", "("), self.one_of("a", "*", "a|b", self.word()), ") ")
            if self.chance(85):
                self.list(1)
            if self.pending:
                self.newline()
            self.put(self.one_of(";;", " ;;", "\n;;\n") if self.chance(90) else self.one_of(";&", ";;&"), " ")
        self.put("esac")

    def end(self, word):
        """A separator before a closing word."""
        if self.pending or self.chance(40):
            self.newline()
        else:
            self.put("; ")
        self.put(word)

    def command(self):
        roll = self.rng.random() * 100
        if roll < 60 or self.deep():
            self.simple()
        elif roll < 67:
            self.wrapped()
        elif roll < 70:
            self.stdin_shell()
        elif roll < 72:
            self.launched()
        elif roll < 75 and self.functions and self.calls:
            self.put(self.rng.choice(self.functions))
        else:
            self.compound()

    def list(self, most):
        for i in range(self.rng.randrange(1, most + 1)):
            if i:
                if self.chance(10):
                    self.put(self.one_of(" |", " &&", " ||", "|", "&&", " |\\\n|", " &\\\n&"), " ")
                    if self.chance(20):
                        self.newline()
                elif self.chance(60):
                    self.put(self.one_of("", " ") + self.comment() if self.chance(15) else "")
                    self.newline()
                else:
                    self.put(self.one_of(";", " ; ", "; ", " & "))
            self.command()

    def whole(self):
        self.list(4)
        self.put(" " + self.comment() if self.chance(10) else "")
        if self.pending or self.chance(70):
            self.newline()
        if self.chance(50):
            self.put(f"{self.rng.choice(NAMES)} {self.fresh()}", self.one_of("", "\n"))
        return "".join(self.text)


def damage(rng, text):
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(text) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            text = text[:at] + text[at + 1:]
        elif kind == 1:
            text = text[:at] + rng.choice(DAMAGE) + text[at:]
        elif kind == 2:
            text = text[:at] + "\\\n" + text[at:]
        elif kind == 3:
            other = rng.randrange(len(text) + 1)
            text = text[:at] + text[other:other + rng.randrange(1, 12)] + text[at:]
        else:
            text = text[:at] + rng.choice(DAMAGE) + text[at + 1:]
    return text


def script(seed, number):
    """The script with this number: the same for the same seed, whatever came before."""
    rng = random.Random(f"{seed}/{number}")
    hurt = rng.random() < 0.5
    text = Script(rng, calls=not hurt).whole()
    return damage(rng, text) if hurt else text
