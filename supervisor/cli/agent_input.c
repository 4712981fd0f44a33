#include "supervisor/cli/agent_input.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "runtime/base/image.h"
#include "supervisor/cli/cli.h"

#include <errno.h>
#include <fcntl.h>

#define TOTAL_MAX (10u << 20) /* the daemon takes requests of up to 16 MiB, and base64 is a third longer */

static int read_image(const char *path, struct buf *ret)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *at = buf_reserve(ret, IMAGE_MAX + 1);
	const ssize_t n = fd < 0 ? -1 : fd_read_all(fd, at, IMAGE_MAX + 1);

	if (n < 0)
		cli_error("--image: %s: %s", path, strerror(errno));
	else if (n > (ssize_t)IMAGE_MAX)
		cli_error("--image: %s: larger than %u KiB", path, IMAGE_MAX >> 10);
	else if (!image_media_type(at, (size_t)n))
		cli_error("--image: %s: not a PNG, JPEG, GIF or WebP image", path);
	else {
		buf_extend(ret, (size_t)n);
		return 0;
	}
	return EXIT_FAILED;
}

int agent_images_read(struct cli *c, struct buf *ret_parts)
{
	struct jw w = jw_on(ret_parts);
	size_t total = 0;

	for (size_t i = 0; i < c->opts.ngiven; i++) {
		buf_auto struct buf bytes = BUF_INIT;

		if (c->opts.given[i].option != OPT_agent_IMAGE)
			continue;
		if (read_image(c->opts.given[i].value, &bytes))
			return EXIT_FAILED;
		total += bytes.len;
		if (total > TOTAL_MAX) {
			cli_error("--image: the images of a prompt have more than %u MiB in total", TOTAL_MAX >> 20);
			return EXIT_FAILED;
		}
		jw_obj(&w);
		jw_kstr(&w, "type", "image");
		jw_key(&w, "data");
		jw_base64(&w, bytes.data, bytes.len);
		jw_obj_end(&w);
	}
	return 0;
}

void agent_input_write(const char *prompt, const struct buf *image_parts, struct jw *w)
{
	jw_karr(w, "input");
	jw_obj(w);
	jw_kstr(w, "type", "text");
	jw_kstr(w, "text", prompt);
	jw_obj_end(w);
	if (image_parts->len)
		jw_raw(w, image_parts->data, image_parts->len);
	jw_arr_end(w);
}
