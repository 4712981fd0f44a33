/*
 * Linked into every program of MODE=asan, so that it also applies to programs with an empty environment: the leak check
 * at exit takes seconds per process on some machines. ASAN_OPTIONS=detect_leaks=1 asks for it.
 */

const char *__asan_default_options(void);

const char *__asan_default_options(void) { return "detect_leaks=0"; }
