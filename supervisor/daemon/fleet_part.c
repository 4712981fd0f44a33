#include "supervisor/daemon/fleet_part.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jscan.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/common/options.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_MAX (1u << 20)

/* The text of the configuration; empty if there is none. Its owner decides which keys may submit as the user.
 */
static int read_config(const char *path, bool privileged, struct buf *ret, struct err *e)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return 0; /* the runtime reports what is wrong with it */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	ssize_t n = fd_read_all(fd, buf_reserve(ret, CONFIG_MAX), CONFIG_MAX);
	buf_extend(ret, n > 0 ? (size_t)n : 0);
	if (!strstr(buf_cstr(ret), "\"fleet."))
		return 0;
	if (privileged && (st.st_uid != 0 || st.st_mode & (S_IWGRP | S_IWOTH)))
		return err_set(e, ERR_NOT_ALLOWED,
			       "%s: a file with keys of a fleet must belong to root and be writable by root only",
			       path);
	return 0;
}

static int find_user(const struct options *o, struct jval config, struct fleet_part *ret, struct err *e)
{
	char name[128] = "";
	int n = FLEET_PART_GROUPS;

	jval_str(jval_get(config, "fleet.user"), name, sizeof(name));
	if (o->fleet_user)
		snprintf(name, sizeof(name), "%s", o->fleet_user);
	if (!name[0])
		return err_field(e, "fleet.user",
				 "a node of root's daemon needs the name of the user whose tasks it runs "
				 "(configuration key fleet.user, or --fleet-user)");
	const struct passwd *pw = getpwnam(name);
	if (!pw)
		return err_field(e, "fleet.user", "there is no user '%s'", name);
	ret->uid = pw->pw_uid;
	ret->gid = pw->pw_gid;
	if (getgrouplist(name, pw->pw_gid, ret->groups, &n) < 0)
		n = FLEET_PART_GROUPS;
	ret->ngroups = (size_t)n;
	/* Sandboxes of root do not write to home directories, and other users must not be able to replace the folder.
	 */
	if (pw->pw_uid == 0 && jval_get(config, "fleet.workDir").type != JT_STRING)
		return err_field(
			e, "fleet.workDir",
			"a node whose tasks run as root needs a folder for their workspaces that only root can "
			"write to, and which the file root-write-roots lists");
	snprintf(ret->work, sizeof(ret->work), "%s/.cache/bailiff-fleet", pw->pw_dir);
	return 0;
}

/* Options are passed on; what is missing there the node reads from the configuration. */
static void make_argv(const struct options *o, struct fleet_part *p)
{
	const struct {
		const char *name, *value;
	} rows[] = { { "--url", o->fleet },       { "--creds", o->fleet_creds }, { "--tls-ca", o->fleet_tls_ca },
		     { "--name", o->fleet_node }, { "--labels", o->label },      { "--default-work", p->work },
		     { "--log", o->log_format } };
	size_t n = 0;

	p->argv[n++] = mem_strdup("bailiffd: fleet");
	for (size_t i = 0; i < countof(rows); i++) {
		if (!rows[i].value || !rows[i].value[0])
			continue;
		p->argv[n++] = mem_strdup(rows[i].name);
		p->argv[n++] = mem_strdup(rows[i].value);
	}
}

int fleet_part_find(const struct options *o, const char *config_file, bool privileged, const char *program,
		    struct fleet_part *ret, struct err *e)
{
	struct buf buf_auto text = BUF_INIT;
	const char *home = getenv("HOME");

	if (read_config(config_file, privileged, &text, e) < 0)
		return -1;
	struct jval config = jval_of(buf_cstr(&text), text.len);
	if (!o->fleet && jval_get(config, "fleet.url").type != JT_STRING)
		return 0;
	if (privileged && find_user(o, config, ret, e) < 0)
		return -1;
	if (!privileged && home && home[0] == '/')
		snprintf(ret->work, sizeof(ret->work), "%.*s/.cache/bailiff-fleet", PATH_MAX - 64, home);
	make_argv(o, ret);
	if (!program[0]) {
		log_warning("this daemon should be a node of a fleet, but bailiff-fleet is not installed next to this "
			    "program (the Debian package bailiff-fleet has it): it takes no tasks");
		return 0;
	}
	snprintf(ret->program, sizeof(ret->program), "%s", program);
	return 0;
}
