#ifndef BAILIFF_BASE_DAEMON_EXIT_H
#define BAILIFF_BASE_DAEMON_EXIT_H

/* bailiffd's exit statuses, for the programs that start it. They are documented in bailiffd(8). */
enum {
	DAEMON_EXIT_FAILED = 1,
	DAEMON_EXIT_USAGE = 2,  /* a wrong option or configuration */
	DAEMON_EXIT_KERNEL = 3, /* the kernel lacks a feature that every sandbox needs; a retry does not help */
};

#endif
