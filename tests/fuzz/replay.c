/*
 * Replaces libFuzzer to run a target on existing inputs: each argument is a file or a directory of files. So the
 * corpora are ordinary tests, with every compiler and sanitizer.
 */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (16u << 20)

static unsigned replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f) {
		perror(path);
		exit(1);
	}
	/* In a block of exactly its size, so that a read past the end is detected. */
	struct stat st;
	if (fstat(fileno(f), &st) < 0 || st.st_size > (off_t)INPUT_MAX)
		abort();
	size_t n = (size_t)st.st_size;
	uint8_t *exact = malloc(n ? n : 1);
	if (!exact || fread(exact, 1, n, f) != n)
		abort();
	fclose(f);
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	return 1;
}

static unsigned replay(const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0) {
		perror(path);
		exit(1);
	}
	if (!S_ISDIR(st.st_mode))
		return replay_file(path);
	unsigned count = 0;
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));) {
		char inner[4096];
		if (e->d_name[0] == '.')
			continue;
		snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
		count += replay(inner);
	}
	if (d)
		closedir(d);
	return count;
}

int main(int argc, char **argv)
{
	unsigned count = 0;
	for (int i = 1; i < argc; i++)
		count += replay(argv[i]);
	printf("%u inputs\n", count);
	return count ? 0 : 77;
}
