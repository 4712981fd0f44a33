#ifndef BAILIFF_GATEWAY_HTTP_CONSOLE_FILES_H
#define BAILIFF_GATEWAY_HTTP_CONSOLE_FILES_H

/*
 * /ui/: the files of supervisor/console, embedded by supervisor/console/embed.py. They hold no data, so they need no
 * login. Everything is sent gzipped with an ETag, except index.html, which carries the nonce of its own response.
 */

struct http_server;

#define CONSOLE_PATH "/ui/"

void console_files_serve(struct http_server *server);

#endif
