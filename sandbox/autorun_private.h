#ifndef BAILIFF_SANDBOX_AUTORUN_PRIVATE_H
#define BAILIFF_SANDBOX_AUTORUN_PRIVATE_H

/*
 * Shared by autorun.c (comparison), autorun_search.c (search), autorun_file.c (one file) and git_config.c (reads a git
 * configuration). All data is in one mapping of fixed size, of which the kernel provides only the touched pages: the
 * init allocates nothing, since a command's memory may be limited.
 */

#include "sandbox/autorun.h"

#include "sandbox/autorun_report.h"

#include <limits.h>
#include <sys/stat.h>
#include <time.h>

#define AUTORUN_TEXT_MAX (8u << 20)
#define AUTORUN_SLOTS (2 * AUTORUN_FILES_MAX)
#define AUTORUN_NAMES_MAX (1u << 20)

struct autorun_file {
	const char *path, *program;
	enum autorun_type type;
	uint32_t mode;    /* permission bits */
	bool kept;        /* text is complete; otherwise it is a digest of the content or of stat data */
	const char *text; /* the content, or the link's target */
	uint32_t len;
	struct timespec changed; /* ctime */
	bool led;                /* as in struct autorun, when it was found */
};

/* Files, indexed by path. */
struct autorun_set {
	uint32_t count;
	uint16_t slot[AUTORUN_SLOTS]; /* index in `file` + 1 */
	struct autorun_file file[AUTORUN_FILES_MAX];
};

enum autorun_folder_flag {
	AUTORUN_FOLDER_LATE = 1u << 0,    /* dependencies: searched last */
	AUTORUN_FOLDER_GIT = 1u << 1,     /* named .git */
	AUTORUN_FOLDER_OBJECTS = 1u << 2, /* objects of a git directory */
};

/* Identity and ctime of a folder. */
struct autorun_stamp {
	uint64_t dev, ino;
	struct timespec changed;
};

struct autorun_folder {
	uint32_t parent; /* AUTORUN_ROOT = a write root, whose index is in `name` */
	uint32_t name;   /* offset in `names` */
	uint32_t flags;
	uint32_t before; /* its index in the list of the search before + 1; 0 = not in it */
	bool stamped;    /* `stamp` is valid */
	bool plain;      /* no entry is an autorun file, it is not a git directory, and an equal stamp proves that */
	struct autorun_stamp stamp;
	/* Of a plain one: */
	uint32_t first, count; /* the folders in it */
	uint32_t entries;      /* all names in it */
};
#define AUTORUN_ROOT UINT32_MAX

struct autorun_list {
	struct autorun_folder folder[AUTORUN_FOLDERS_MAX];
	uint32_t count;
	uint32_t names_used;
	char names[AUTORUN_NAMES_MAX];
};

struct autorun_search {
	struct autorun_list list[2];
	struct autorun_list *now, *before; /* of this search and of the one before */
	uint32_t entries;
	uint32_t includes; /* git configuration includes followed so far */
	uint32_t parent;   /* directory that `parent_fd` refers to; AUTORUN_ROOT = none */
	int parent_fd;
	struct timespec started;
	char path[PATH_MAX]; /* of the current directory */
	size_t path_len;
};

struct autorun {
	const struct plan_head *plan;
	int self_fds; /* −1: /proc/self/fd */
	struct autorun_set before, found;
	bool again; /* the second search: skips files in `before` */
	bool led;   /* the current file was reached by a link or a configuration that may have led elsewhere before */
	uint32_t partial; /* enum autorun_partial, of both searches */
	uint32_t partial_before;
	struct timespec began; /* CLOCK_REALTIME */
	struct autorun_change {
		const struct autorun_file *before; /* NULL = did not exist */
		struct autorun_file after;
	} change[AUTORUN_FILES_MAX];
	uint32_t changes;
	struct autorun_search search;
	uint32_t text_used;
	char text[AUTORUN_TEXT_MAX];
};

/* autorun_file.c */
const struct autorun_file *autorun_find(const struct autorun_set *s, const char *path);
/* Reads the current version; type NONE if there is no file. `at` and `name` locate it, or AT_FDCWD and a path. */
void autorun_examine(struct autorun *a, int at, const char *name, struct autorun_file *ret);
/* Examines and stores it, and its target if it is a link; adds it to `found` unless it is known from before. */
const struct autorun_file *autorun_check_entry(struct autorun *a, int at, const char *name, const char *path,
					       const char *program);

bool autorun_in_write_root(const struct autorun *a, const char *path);

/* autorun_search.c */
void autorun_search(struct autorun *a);

#endif
