#ifndef BAILIFF_GATEWAY_FILE_URI_H
#define BAILIFF_GATEWAY_FILE_URI_H

/* file: URIs, the form in which Codex and MCP roots send paths: file:///a%20b, file://localhost/a, file:/a. */

#include <limits.h>

struct buf;
struct err;

/*
 * Decodes the path and cleans it (runtime/base/path.h). ERR_INVALID: not a file URI, another host, or not a valid path.
 */
int file_uri_path(const char *uri, char ret[PATH_MAX], struct err *e);
/* Appends the URI of an absolute path, percent-encoded. */
void file_uri_write(const char *path, struct buf *out);

#endif
