#include "tests/unit/policy/scripts.h"

#include "runtime/base/mem.h"

#include <glob.h>
#include <string.h>
#include <sys/stat.h>

static const char *const places[] = {
	"/usr/bin/*",
	"/usr/sbin/*",
	"/etc/init.d/*",
	"/etc/cron.*/*",
	"/etc/profile.d/*.sh",
	"/var/lib/dpkg/info/*.postinst",
	"/var/lib/dpkg/info/*.preinst",
	"/var/lib/dpkg/info/*.prerm",
	"/var/lib/dpkg/info/*.postrm",
	"/usr/lib/git-core/*",
	"/usr/lib/*/*.sh",
	"/usr/lib/*/*/*.sh",
	"/usr/share/*/*.sh",
	"/usr/share/*/*/*.sh",
	"/usr/share/doc/*/examples/*",
	"/usr/share/bash-completion/completions/*",
};

void scripts_read(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "r");

	for (size_t n; f && (n = fread(buf_reserve(out, 65536), 1, 65536, f)) > 0 && out->len <= SHELL_TEXT_MAX;)
		out->len += n;
	if (f)
		(void)fclose(f);
	buf_byte(out, '\0');
	out->len--;
}

/* 1: for sh, 2: for bash, 0: something else */
static int kind_of(const char *path)
{
	static const char *const shells[] = { "#!/bin/sh",   "#! /bin/sh",   "#!/usr/bin/sh",   "#!/bin/dash",
					      "#!/bin/bash", "#! /bin/bash", "#!/usr/bin/bash", "#!/usr/bin/env bash" };
	char head[64] = "";
	struct stat st;
	FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "r") : NULL;

	if (!f)
		return 0;
	bool some = fgets(head, sizeof(head), f) != NULL;
	(void)fclose(f);
	for (size_t i = 0; some && i < countof(shells); i++)
		if (strncmp(head, shells[i], strlen(shells[i])) == 0 && strchr(" \n\t", head[strlen(shells[i])]))
			return i < 4 ? 1 : 2;
	return strstr(path, "/completions/") ? 2 : 0;
}

void scripts_find(struct scripts *s)
{
	for (size_t i = 0; i < countof(places); i++) {
		glob_t g = { 0 };

		if (glob(places[i], 0, NULL, &g) == 0)
			for (size_t k = 0; k < g.gl_pathc && s->count < SCRIPTS_MAX; k++) {
				int kind = kind_of(g.gl_pathv[k]);

				if (!kind)
					continue;
				s->bash[s->count] = kind == 2;
				s->path[s->count++] = mem_strdup(g.gl_pathv[k]);
			}
		globfree(&g);
	}
}

void scripts_done(struct scripts *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->path[i]);
	s->count = 0;
}
