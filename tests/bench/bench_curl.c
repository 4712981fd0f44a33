/*
 * A bare reader of a streamed answer: POSTs its input with libcurl and discards the response. What bailiff takes for
 * the same request and stream is compared with this program's CPU time, which the caller reads when it has ended.
 *
 * bench_curl URL HEADER...          prints the number of bytes of the response
 */

#include "runtime/base/buf.h"

#include <curl/curl.h>
#include <stdio.h>
#include <unistd.h>

static size_t count_bytes(char *p, size_t size, size_t n, void *ctx)
{
	*(size_t *)ctx += size * n;
	return size * n;
}

int main(int argc, char **argv)
{
	struct curl_slist *headers = NULL;
	buf_auto struct buf body = BUF_INIT;
	size_t received = 0;
	long status = 0;
	char chunk[65536];

	if (argc < 2)
		return 2;
	for (ssize_t n; (n = read(STDIN_FILENO, chunk, sizeof chunk)) > 0;)
		buf_append(&body, chunk, (size_t)n);
	for (int i = 2; i < argc; i++)
		headers = curl_slist_append(headers, argv[i]);
	CURL *easy = curl_easy_init();
	if (!easy)
		return 1;
	curl_easy_setopt(easy, CURLOPT_URL, argv[1]);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, buf_cstr(&body));
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, &received);
	const CURLcode rc = curl_easy_perform(easy);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(easy);
	curl_slist_free_all(headers);
	printf("%zu\n", received);
	return rc == CURLE_OK && status == 200 ? 0 : 1;
}
