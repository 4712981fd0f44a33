/*
 * Recognises sed scripts that only print. Versions of sed differ in whether a delimiter in a bracket expression ends a
 * regular expression, and locales in which bytes are characters: a script for which that matters is not recognised.
 */

#include "policy/sed_script.h"

#include "policy/args.h"

#include <ctype.h>
#include <string.h>

/* Moves past the bracket expression at *s; false: it does not end, or contains the delimiter. */
static bool skip_bracket(const char **s, char delimiter)
{
	const char *at = *s + 1;

	at += *at == '^';
	at += *at == ']';
	for (; *at != ']'; at++) {
		if (!*at || *at == '\n' || *at == delimiter)
			return false;
		if (*at == '\\' && at[1])
			at++;
		if (*at == '[' && strchr(":.=", at[1]) && at[1]) {
			const char end[] = { at[1], ']', '\0' }, *close = strstr(at + 2, end);

			if (!close || memchr(at, delimiter, (size_t)(close - at)))
				return false;
			at = close + 1;
		}
	}
	*s = at;
	return true;
}

/* Moves past a regular expression or a replacement, up to and with its delimiter. */
static bool skip_piece(const char **s, char delimiter, bool regex)
{
	for (; **s != delimiter; ++*s) {
		if (!**s || **s == '\n')
			return false;
		if (**s == '\\' && (*s)[1])
			++*s;
		else if (regex && **s == '[' && !skip_bracket(s, delimiter))
			return false;
	}
	++*s;
	return true;
}

static bool is_delimiter(char c) { return c && c != '\n' && c != '\\' && c != '['; }

/* Moves past a number, $, /x/ or \cxc; false: it is malformed. Without an address nothing is moved. */
static bool skip_address(const char **s)
{
	if (isdigit((unsigned char)**s)) {
		*s += strspn(*s, "0123456789~");
	} else if (**s == '$') {
		++*s;
	} else if (**s == '/' || **s == '\\') {
		*s += **s == '\\';
		const char delimiter = **s;

		if (!is_delimiter(delimiter))
			return false;
		++*s;
		if (!skip_piece(s, delimiter, true))
			return false;
		*s += strspn(*s, "IM");
	}
	return true;
}

static bool skip_addresses(const char **s)
{
	if (!skip_address(s))
		return false;
	*s += strspn(*s, " \t");
	if (**s == ',') {
		++*s;
		*s += strspn(*s, " \t");
		*s += **s == '+' || **s == '~';
		if (!skip_address(s))
			return false;
	}
	*s += strspn(*s, " \t!");
	return true;
}

/* The arguments of a command; false: it is not one that only prints. */
static bool skip_arguments(const char **s, char command)
{
	static const char names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	const char delimiter = **s;

	switch (command) {
	case 's':
	case 'y':
		if (!is_delimiter(delimiter))
			return false;
		++*s;
		if (!skip_piece(s, delimiter, command == 's') || !skip_piece(s, delimiter, false))
			return false;
		*s += command == 's' ? strspn(*s, "gpiImM0123456789") : 0;
		return true;
	case ':':
	case 'b':
	case 't':
	case 'T':
		*s += strspn(*s, " \t");
		*s += strspn(*s, names);
		return true;
	case 'q':
	case 'Q':
	case 'l':
		*s += strspn(*s, " \t");
		*s += strspn(*s, "0123456789");
		return true;
	default: return command && strchr("=dDgGhHnNpPxz", command);
	}
}

static bool only_prints(const char *script)
{
	for (const char *s = script; *s; s++)
		if (*s & 0x80)
			return false;
	for (const char *s = script;;) {
		s += strspn(s, " \t\n;");
		if (!*s)
			return true;
		if (*s == '#') {
			s += strcspn(s, "\n");
			continue;
		}
		if (!skip_addresses(&s))
			return false;
		const char command = *s;
		if (!command)
			return false;
		s++;
		if (command == '{' || command == '}')
			continue;
		if (!skip_arguments(&s, command))
			return false;
		s += strspn(s, " \t");
		if (*s && !strchr(";\n}#", *s))
			return false;
	}
}

/* The options in a cluster, -nE; with -e its script, which may be the next word. False: another option. */
static bool read_cluster(const char *const *argv, size_t argc, size_t *k, bool *ret_script)
{
	for (const char *s = argv[*k] + 1; *s; s++) {
		if (*s == 'e') {
			const char *script = s[1] ? s + 1 : *k + 1 < argc ? argv[++*k] : NULL;

			*ret_script = true;
			return script && only_prints(script);
		}
		if (!strchr("nErsuz", *s))
			return false;
	}
	return true;
}

bool sed_only_prints(const char *const *argv, size_t argc)
{
	static const char harmless[] = "--quiet|--silent|--regexp-extended|--unbuffered|--null-data";
	static const char expression[] = "--expression=";
	const char *operand = NULL;
	bool script = false;

	for (size_t k = 1; k < argc; k++) {
		const char *s = argv[k];

		if (!s || (*s != '-' && operand) || (*s == '-' && !s[1]))
			return false;
		if (*s != '-') {
			operand = s;
		} else if (strncmp(s, expression, sizeof expression - 1) == 0) {
			script = true;
			if (!only_prints(s + sizeof expression - 1))
				return false;
		} else if (s[1] == '-' ? !args_named(s, harmless) : !read_cluster(argv, argc, &k, &script)) {
			return false;
		}
	}
	return script ? !operand : operand && only_prints(operand);
}
