#ifndef BAILIFF_GATEWAY_HTTP_SERVE_H
#define BAILIFF_GATEWAY_HTTP_SERVE_H

/* `bailiff serve`, for `bailiff console`, which starts it if none listens. */

struct err;

#define SERVE_LISTEN "127.0.0.1:7717"

/* Like serve_main; writes "HOST:PORT" to notify_fd, unless that is −1, once it listens, and closes it. */
int serve_run(int argc, char **argv, int notify_fd);
/* 1: a command in some sandbox could read the file; 0: none could. */
int serve_commands_read(const char *file, struct err *e);

#endif
