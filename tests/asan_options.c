/*
 * Linked into every program of MODE=asan, so that it also holds for those that are started with an empty environment:
 * the search for leaks at exit takes seconds a process on some machines. ASAN_OPTIONS=detect_leaks=1 asks for it.
 */

const char *__asan_default_options(void);

const char *__asan_default_options(void) { return "detect_leaks=0"; }
