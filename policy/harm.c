/*
 * What a command would destroy. harms.def covers what follows from the words alone. This file covers harm that depends
 * on paths (devices, whole trees, files outside the workspace) or on more than one command (a download piped into a
 * shell, a function that starts itself twice).
 */

#include "policy/analysis.h"

#include "runtime/base/mem.h"
#include "runtime/base/path.h"

#include <ctype.h>

static const struct row {
	const char *pattern;
	enum command_harm level;
	const char *impact, *advice;
} rows[] = {
#define HARM(pattern, level, impact, advice) { pattern, COMMAND_##level, impact, advice },
#include "policy/harms.def"
#undef HARM
};

static void harm_raise(struct analysis *r, size_t index, enum command_harm level, const char *impact,
		       const char *advice)
{
	struct command_simple *c = analysis_simple(r, index);

	if (level <= c->harm)
		return;
	c->harm = level;
	c->impact = impact;
	c->advice = advice;
}

/* "/", "/usr", the home directory, or a directory that contains the workspace */
static bool is_vital(const struct analysis *r, const char *path)
{
	if (strchr(path + 1, '/') == NULL)
		return strcmp(path, "/tmp") != 0;
	if (r->o->home && path_within(path, r->o->home))
		return true;
	return path_within(path, r->workspace) && strcmp(path, r->workspace) != 0;
}

/* The directory that a glob which ends in a single * would empty. */
static const char *emptied_directory(struct analysis *r, const struct command_path *p)
{
	const size_t n = strlen(p->path);
	const char *last = strrchr(p->path, '/');

	if (p->exact || !last || (strcmp(last, "/*") != 0 && strcmp(last, "/.*") != 0) || n < 2)
		return p->path;
	return last == p->path ? "/" : shell_arena_strndup(r->arena, p->path, (size_t)(last - p->path));
}

/* A whole tree is deleted or changed: how bad depends on which. */
static void harm_of_tree(struct analysis *r, const struct analysis_command *c, const struct command_path *p)
{
	const bool deletes = p->access & COMMAND_DELETES;

	if (*p->path != '/') {
		/* rm -rf $DIR/: with an empty variable this is the root */
		if (*p->path == '$' && strchr(p->path, '/') && !strstr(p->path, ":?") && deletes)
			harm_raise(r, c->index, COMMAND_CATASTROPHIC,
				   "deletes a tree whose name begins with a variable: if that is empty, everything",
				   "write ${NAME:?} so that an empty variable stops it, and check the value first");
		return;
	}
	const char *path = emptied_directory(r, p);
	if (is_vital(r, path))
		harm_raise(r, c->index, COMMAND_CATASTROPHIC,
			   deletes ? "deletes a folder that the system, the user or the workspace needs, with "
				     "everything in it"
				   : "changes every file of a folder that the system, the user or the workspace needs",
			   "name the folder that is meant; only a backup brings it back");
	else if (deletes && strcmp(path, r->workspace) == 0 && !(p->access & COMMAND_SEARCHED))
		harm_raise(r, c->index, COMMAND_CATASTROPHIC, "deletes the whole workspace",
			   "what is not pushed or backed up is lost");
}

/* Files there are expected to disappear. */
static bool is_temporary(const char *path)
{
	return path_within("/tmp", path) || path_within("/var/tmp", path) || path_within("/dev/shm", path);
}

static void harm_of_path(struct analysis *r, const struct analysis_command *c, const struct command_path *p)
{
	const char *name = c->args->name;
	const bool device = strncmp(p->path, "/dev/", 5) == 0 && !command_paths_harmless_target(p->path) &&
			    strncmp(p->path, "/dev/shm/", 9) != 0;

	if (device && p->access & (COMMAND_WRITES | COMMAND_DELETES))
		harm_raise(r, c->index, COMMAND_CATASTROPHIC, "overwrites a device: everything on it is lost",
			   "check the device with lsblk; only a backup brings the data back");
	if (p->access & COMMAND_RECURSES && !(p->access & COMMAND_WITHIN) &&
	    p->access & (COMMAND_WRITES | COMMAND_DELETES))
		harm_of_tree(r, c, p);
	/* Redirections only: rm has its own row. */
	if ((p->access & COMMAND_WRITES) && (p->access & COMMAND_DELETES) && *p->path != '/') {
		harm_raise(r, c->index, COMMAND_RISKY, "replaces the content of a file whose path is unknown",
			   "write its name out, or append with >>");
	} else if ((p->access & COMMAND_WRITES) && (p->access & COMMAND_DELETES) && p->outside) {
		harm_raise(r, c->index, is_temporary(p->path) ? COMMAND_RISKY : COMMAND_DESTRUCTIVE,
			   "replaces the content of a file outside of the workspace",
			   "copy the file first, or append with >>");
	}
	if ((p->access & COMMAND_WRITES) && p->outside &&
	    (p->exact || p->access & (COMMAND_WITHIN | COMMAND_SEARCHED)) && !is_temporary(p->path))
		harm_raise(r, c->index, COMMAND_RISKY, "changes a file outside of the workspace",
			   "copy the file first");
	if ((p->access & COMMAND_DELETES) && p->outside && name && !(p->access & COMMAND_WRITES) && p->exact &&
	    !is_temporary(p->path) &&
	    (strcmp(name, "rm") == 0 || strcmp(name, "mv") == 0 || strcmp(name, "unlink") == 0))
		harm_raise(r, c->index, COMMAND_DESTRUCTIVE, "removes a file outside of the workspace",
			   "copy it first; only a backup brings it back");
}

void harm_of_command(struct analysis *r, const struct analysis_command *c)
{
	static uint64_t first[countof(rows)];
	const char *name = c->args->name;

	for (size_t i = 0; name && i < countof(rows); i++)
		if (args_may_name(name, rows[i].pattern, &first[i]) &&
		    rows[i].level > analysis_simple(r, c->index)->harm && args_match(c->args, rows[i].pattern))
			harm_raise(r, c->index, rows[i].level, rows[i].impact, rows[i].advice);
	for (size_t i = r->facts->npaths; i-- > 0 && r->facts->path[i].command == c->index;)
		harm_of_path(r, c, &r->facts->path[i]);
}

/* A shell or interpreter that reads its program from a pipe with data from the network. */
static void check_piped_download(struct analysis *r)
{
	static const char interpreters[] = "python*|perl|ruby|node|php|lua*|Rscript";
	struct command_facts *f = r->facts;
	bool download = false;

	for (size_t i = 0; i < f->nhosts; i++)
		download |= f->command[f->host[i].command].context & (SHELL_IN_PIPE_TO | SHELL_IN_SUBSTITUTION);
	for (size_t i = 0; download && i < f->ncommands; i++) {
		const struct command_simple *c = &f->command[i];
		const bool reads = (c->unknown & COMMAND_UNKNOWN(STDIN)) ||
				   (c->name && args_named(c->name, interpreters) && (c->context & SHELL_IN_PIPE_FROM) &&
				    c->argc == 1);

		if (reads || (c->unknown & (COMMAND_UNKNOWN(EVALUATED) | COMMAND_UNKNOWN(SOURCED))))
			harm_raise(r, i, COMMAND_DESTRUCTIVE, "runs what the network sends without showing it",
				   "download it to a file, read it, then run it");
	}
}

/* :(){ :|:& };: — a function that starts itself in the background, or on both ends of a pipe */
static void check_fork_bomb(struct analysis *r, const struct shell_script *s)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct shell_command *c = &s->command[i];

		if (!c->function || !c->nwords || !c->word[0].value || strcmp(c->word[0].value, c->function) != 0 ||
		    !(c->context & (SHELL_IN_BACKGROUND | SHELL_IN_PIPE_TO | SHELL_IN_PIPE_FROM)))
			continue;
		for (size_t k = 0; k < r->facts->ncommands; k++)
			if (r->facts->command[k].name && strcmp(r->facts->command[k].name, c->function) == 0)
				harm_raise(r, k, COMMAND_CATASTROPHIC,
					   "starts itself again and again until the machine has no processes left",
					   "set a limit for processes; there is no reason to run this");
	}
}

void harm_of_line(struct analysis *r, const struct shell_script *s)
{
	check_piped_download(r);
	if (s && s->nfunctions)
		check_fork_bomb(r, s);
}
