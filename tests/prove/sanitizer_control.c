/* Known-bad controls of sanitizers.py: memory that is lost, a read of memory that was freed, two threads that race. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int counter;
static char *volatile lost;

static void *count(void *arg)
{
	for (int i = 0; i < 100000; i++)
		counter++;
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1 && strcmp(argv[1], "race") == 0) {
		pthread_create(&thread, NULL, count, NULL);
		count(NULL);
		pthread_join(thread, NULL);
	}
	if (argc > 1 && strcmp(argv[1], "leak") == 0) {
		lost = malloc(1000);
		lost = NULL;
	}
	return 0;
}
