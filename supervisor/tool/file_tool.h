#ifndef BAILIFF_TOOL_FILE_TOOL_H
#define BAILIFF_TOOL_FILE_TOOL_H

/*
 * bailiff-tool: the file tools, as a small static program. It runs inside the turn's sandbox as the turn's user, so the
 * kernel decides what it may access. It gets the call's arguments (JSON that the runtime has checked) on stdin and
 * writes one JSON object to stdout. Exit status 0: the object is the result; 1: it is
 * {"error":{"category","message",…}}, and members that explain it.
 *
 * main.c          selects the tool
 * tool_links.c    opens files without following symbolic links, while rules about files are in effect
 * tool_file.c     reads, writes (atomically) and lists files
 * patch.c         parses both patch formats into one list of changes
 * patch_text.c    applies changes to the text of one file
 * tool_patch.c    apply_patch: nothing is written unless every hunk applies; each file is replaced atomically
 * tool_editor.c   the text of files in the user's editor
 * tool_edit.c     edit_file: replaces a text that occurs once
 * tool_search.c   glob and grep
 * file_tree.c     … the files that they visit, without what .gitignore excludes
 * tool_fs.c       single operations on files, for gateways; with its own arguments and replies
 * tool_walk.c     … the one that walks a tree
 * tool_instructions.c  the instruction files of a working directory, for the loop
 * tool_mcp.c      one conversation with an external MCP server
 * mcp_reader.c    … the messages that it writes
 * mcp_runner.c    … the process that keeps it running for later calls
 * tool_mcp_http.c … one that is reached by a URL
 * tool_inspect.c  reports what the sandbox looks like from inside, for `bailiff doctor`
 *
 * It does not check paths itself and is not trusted: a command in the same sandbox could do everything that it does. It
 * must only be robust against files that other processes change meanwhile. Limits (sizes, depth, entries) keep a result
 * small enough for the runtime, which reads it from the output.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

#define TOOL_FILE_MAX (16u << 20) /* largest file that is read as a whole */
#define TOOL_SHOWN_MAX (1u << 20) /* largest content that is returned */

/* Each writes the members of its result. */
int tool_read_file(struct jval args, struct jw *w, struct err *e);
int tool_write_file(struct jval args, struct jw *w, struct err *e);
int tool_list_directory(struct jval args, struct jw *w, struct err *e);
int tool_apply_patch(struct jval args, struct jw *w, struct err *e);
int tool_edit_file(struct jval args, struct jw *w, struct err *e);
int tool_glob(struct jval args, struct jw *w, struct err *e);
int tool_grep(struct jval args, struct jw *w, struct err *e);
int tool_mcp(int argc, char **argv, struct jval arguments, struct jw *w, struct err *e);

/* Reads the whole file. ERR_NOT_FOUND, ERR_SYS, ERR_EXHAUSTED. */
int tool_file_load(const char *path, struct buf *ret, struct err *e);
/*
 * Replaces the file atomically: writes a new one next to it, syncs it and renames it. The mode is preserved; a file
 * that does not exist yet gets `mode`, or with 0 the default. A link is followed.
 */
enum tool_store {
	TOOL_STORE_FOLDERS = 1, /* create missing directories of the path */
	TOOL_STORE_NEW = 2,     /* fail if the file exists */
};
int tool_file_store(const char *path, const void *p, size_t n, unsigned flags, mode_t mode, struct err *e);
bool tool_file_exists(const char *path);

int tool_file_remove(const char *path, struct err *e);

/* tool_links.c. Every path of a call is opened with these functions. */
bool tool_links_refused(void);
/* As openat, with O_CLOEXEC, of a path, or of a name in `at`. ELOOP: links are refused, and there is one. */
int tool_links_open(int at, const char *path, int flags, mode_t mode);
/* If errno is that ELOOP, fills `e` and returns −1; otherwise 0. */
int tool_links_explain(struct err *e, const char *path);
/* −1: links are refused, and there is one. own: the last component may be one, because the operation is about it. */
int tool_links_check(const char *path, bool own, struct err *e);
/* As realpath; −1 with errno. */
int tool_links_resolve(const char *path, char ret[PATH_MAX]);
/* Opens the directory that contains the last component, *ret_name; −1 with errno. */
int tool_links_folder(const char *path, const char **ret_name);

/* The tool was started with --editor: files that are loaded as text may be replaced by the text in the editor. */
void tool_editor_enable(void);
/* `file` is the text of the open descriptor. */
struct stat;
void tool_editor_replace(int fd, const struct stat *st, struct buf *file);
bool tool_editor_unsaved(void); /* a file that was loaded differs from the one on disk */

#define TOOL_FS_FILE_MAX (64u << 20)

/* OPERATION FLAGS PATH [PATH]; returns the exit status. */
int tool_fs_main(int argc, char **argv);
int tool_fs_walk(const char *path, const char *flags, struct jw *w, struct err *e);
/* SUBJECT ARGUMENT; returns the exit status. */
int tool_inspect_main(int argc, char **argv);
int tool_instructions_main(void); /* returns the exit status */
/* MODEL_PROGRAM URL OPTIONS; returns the exit status. */
int tool_mcp_http_main(int argc, char **argv);
int tool_write_out(const struct buf *out);

#endif
