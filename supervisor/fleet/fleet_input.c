#include "supervisor/fleet/fleet_input.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/bundle.h"
#include "supervisor/fleet/fleet_port.h"
#include "supervisor/fleet/workspaces.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fleet_input {
	struct fleet_port *port;
	struct bundle bundle; /* bytes 0: there is none */
	char submitter[FLEET_KEY_TEXT];
	int folder, archive;
	uint64_t received;
};

/* ---- folders ---- */

static int open_folder(int dir_fd, const char *name)
{
	return openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- bundles ---- */

static int check_bundle(const struct fleet_spec *spec, struct bundle *ret, struct err *e)
{
	if (!spec->bundle)
		return 0;
	if (spec->bundle_bytes == 0 || spec->bundle_bytes > BUNDLE_BYTES_MAX)
		return err_field(e, "bundleBytes", "must be 1 to %llu", (unsigned long long)BUNDLE_BYTES_MAX);
	snprintf(ret->sha256, sizeof(ret->sha256), "%s", spec->bundle);
	ret->bytes = spec->bundle_bytes;
	return 0;
}

char *fleet_input_subject(const char *submitter, const struct bundle *b, uint64_t chunk)
{
	return mem_printf(FLEET_BLOB_SUBJECT "%s.%s.%llu", submitter, b->sha256, (unsigned long long)chunk);
}

int fleet_input_new(struct fleet_port *port, const struct fleet_task *t, int dir_fd, const char *name,
		    struct fleet_input **ret, struct err *e)
{
	struct fleet_input in = { .port = port, .folder = -1, .archive = -1 };

	if (check_bundle(&t->spec, &in.bundle, e) < 0)
		return -1;
	snprintf(in.submitter, sizeof(in.submitter), "%s", t->spec_text.key);
	(void)workspace_remove(dir_fd, name, &(unsigned){ UINT_MAX });
	if (mkdirat(dir_fd, name, 0700) < 0 || (in.folder = open_folder(dir_fd, name)) < 0)
		return err_sys(e, errno, "make the workspace '%s'", name);
	if (in.bundle.bytes && (in.archive = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) < 0) {
		fd_close(&in.folder);
		return err_sys(e, errno, "make a file for the bundle");
	}
	*ret = mem_dup(&in, sizeof(in));
	return 0;
}

/* The next chunk. Every chunk but the last has the full size. */
static int receive_chunk(struct fleet_input *in, struct err *e)
{
	buf_auto struct buf chunk = BUF_INIT;
	const uint64_t left = in->bundle.bytes - in->received;
	mem_auto char *subject = fleet_input_subject(in->submitter, &in->bundle, in->received / FLEET_CHUNK);
	int r = in->port->ops->get_stored(in->port, subject, &chunk, e);

	if (r < 0)
		return err_wrap(e, "read the workspace");
	if (r == 1)
		return err_set(e, ERR_NOT_FOUND, "the workspace %s is no longer stored; submit the task again",
			       in->bundle.sha256);
	if (chunk.len != (left < FLEET_CHUNK ? left : FLEET_CHUNK))
		return err_set(e, ERR_CORRUPT, "the workspace %s has a chunk of %zu bytes", in->bundle.sha256,
			       chunk.len);
	if (fd_write_all(in->archive, chunk.data, chunk.len) < 0)
		return err_sys(e, errno, "write the bundle");
	in->received += chunk.len;
	return 1;
}

int fleet_input_step(struct fleet_input *in, struct err *e)
{
	if (in->received < in->bundle.bytes)
		return receive_chunk(in, e);
	if (in->archive < 0)
		return 0;
	if (bundle_verify(in->archive, &in->bundle, e) < 0 || bundle_unpack(in->archive, in->folder, e) < 0)
		return -1;
	fd_close(&in->archive);
	return 0;
}

void fleet_input_free(struct fleet_input *in)
{
	if (!in)
		return;
	fd_close(&in->folder), fd_close(&in->archive);
	free(in);
}

/* ---- git ---- */

/* $0 is the address, $1 the ref, and what follows is the command. */
#define FETCH_SCRIPT                                                                               \
	"git init -q . && git -c protocol.ext.allow=never fetch -q --depth 1 -- \"$0\" \"$1\" && " \
	"git -c advice.detachedHead=false checkout -q FETCH_HEAD && shift && exec \"$@\""

void fleet_input_command(const struct fleet_spec *spec, struct buf *ret)
{
	struct jw w = jw_on(ret);
	size_t i;
	json_t *arg;

	jw_arr(&w);
	if (spec->git_url) {
		jw_str(&w, "sh");
		jw_str(&w, "-c");
		jw_str(&w, FETCH_SCRIPT);
		jw_str(&w, spec->git_url);
		jw_str(&w, spec->git_ref ? spec->git_ref : "HEAD");
	}
	json_array_foreach ((json_t *)spec->command, i, arg)
		jw_str(&w, json_string_value(arg));
	jw_arr_end(&w);
}
