#include "supervisor/daemon/version.h"

#include "runtime/base/buf.h"
#include "runtime/base/build.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "sandbox/cgroup.h"
#include "sandbox/kernel.h"

#include <event2/event.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <lmdb.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>

static void write_words(struct jw *w, const char *key, char *text)
{
	jw_karr(w, key);
	for (char *save, *word = strtok_r(text, " ,\n", &save); word; word = strtok_r(NULL, " ,\n", &save))
		jw_str(w, word);
	jw_arr_end(w);
}

/* Controllers of the process's own cgroup in the v2 tree, and those with a v1 hierarchy: "4:memory:/…"; "name=" is not
 * a controller. */
static void write_cgroups(struct jw *w)
{
	char own[PATH_MAX], path[PATH_MAX + 32], v2[1024] = "", v1[1024] = "", line[PATH_MAX];
	bool has_v2 = cgroup_own_folder(own, NULL) == 0;
	snprintf(path, sizeof path, "%s/cgroup.controllers", own);
	fd_auto int fd = has_v2 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd < 0 ? 0 : fd_read_all(fd, v2, sizeof v2 - 1);
	v2[n > 0 ? n : 0] = 0;
	FILE *f = fopen("/proc/self/cgroup", "re");
	for (size_t used = 0; f && fgets(line, sizeof line, f) && used < sizeof v1;) {
		char *name = strchr(line, ':'), *end = name ? strchr(name + 1, ':') : NULL;
		if (end && end != name + 1 && strncmp(name + 1, "name=", 5) != 0)
			used += (size_t)snprintf(v1 + used, sizeof v1 - used, "%.*s ", (int)(end - name - 1), name + 1);
	}
	if (f)
		fclose(f);
	jw_kobj(w, "cgroup");
	jw_kstr(w, "version", has_v2 ? v1[0] ? "v1 and v2" : "v2" : v1[0] ? "v1" : "none");
	write_words(w, "v2Controllers", v2);
	write_words(w, "v1Controllers", v1);
	jw_obj_end(w);
}

void version_json(struct buf *out)
{
	const struct scmp_version *s = seccomp_version();
	struct kernel_feature rows[KERNEL_FEATURES_MAX];
	size_t n = kernel_probe(rows);
	struct jw w = jw_on(out);
	char release[KERNEL_RELEASE_MAX], seccomp[48], lmdb[48];
	int major, minor, patch;
	kernel_release(release);
	jw_obj(&w);
	build_write(&w);
	jw_kstr(&w, "kernel", release);
	/* Versions at run time, which may be newer than those at build time. */
	(void)mdb_version(&major, &minor, &patch);
	snprintf(lmdb, sizeof lmdb, "%d.%d.%d", major, minor, patch);
	snprintf(seccomp, sizeof seccomp, "%u.%u.%u", s->major, s->minor, s->micro);
	jw_kobj(&w, "libraries");
	jw_kstr(&w, "libevent", event_get_version());
	jw_kstr(&w, "lmdb", lmdb);
	jw_kstr(&w, "libseccomp", seccomp);
	jw_kstr(&w, "jansson", jansson_version_str());
	jw_obj_end(&w);
	write_cgroups(&w);
	jw_karr(&w, "features");
	for (size_t i = 0; i < n; i++) {
		char since[24];
		snprintf(since, sizeof since, "%u.%u", rows[i].major, rows[i].minor);
		jw_obj(&w);
		jw_kstr(&w, "name", rows[i].name);
		jw_kstr(&w, "state", kernel_state_name(rows[i].state));
		jw_kbool(&w, "required", rows[i].required);
		jw_kstr(&w, "since", since);
		jw_kopt(&w, "detail", rows[i].detail[0] ? rows[i].detail : NULL);
		if (rows[i].state == KERNEL_MISSING) {
			jw_kstr(&w, "lost", rows[i].lost);
			jw_kopt(&w, "fix", rows[i].fix);
		}
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
}
