#ifndef BAILIFF_GATEWAY_FILE_URI_H
#define BAILIFF_GATEWAY_FILE_URI_H

/* file: URIs, which is how Codex and MCP roots write paths: file:///a%20b, file://localhost/a, file:/a. */

#include <limits.h>

struct buf;
struct err;

/* The path, clean (runtime/base/path.h). ERR_INVALID: no file URI, another host's, or no path of this system. */
int file_uri_path(const char *uri, char ret[PATH_MAX], struct err *e);
/* Appends the URI of an absolute path. */
void file_uri_write(const char *path, struct buf *out);

#endif
