/*
 * What decoding a streamed answer costs: CPU time per token and per MB of stream, for each dialect, compared with a
 * bare read() of the same bytes. A token is one delta event, as providers send them.
 *
 * bench_dialect [TOKENS]
 */

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "runtime/dialect/dialect.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 16384 /* what libcurl delivers at most */

static const struct {
	enum dialect d;
	const char *begin, *token, *end;
} STREAMS[] = {
	{ DIALECT_ANTHROPIC,
	  "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9}}}\n\n"
	  "event: content_block_start\ndata: "
	  "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
	  "event: content_block_delta\ndata: "
	  "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"word%u \"}}\n\n",
	  "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
	  "event: message_delta\ndata: "
	  "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n"
	  "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n" },
	{ DIALECT_OPENAI_RESPONSES, "",
	  "event: response.output_text.delta\ndata: "
	  "{\"type\":\"response.output_text.delta\",\"sequence_number\":%1$u,\"item_id\":\"msg_0123456789abcdef\","
	  "\"output_index\":0,\"content_index\":0,\"delta\":\"word%1$u \"}\n\n",
	  "event: response.completed\ndata: "
	  "{\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":9}}}\n\n" },
	{ DIALECT_OPENAI_CHAT, "",
	  "data: "
	  "{\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":"
	  "\"model-1\",\"choices\":[{\"index\":0,"
	  "\"delta\":{\"content\":\"word%u \"},\"finish_reason\":null}]}\n\n",
	  "data: "
	  "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,"
	  "\"completion_tokens\":9}}\n\ndata: [DONE]\n\n" },
	{ DIALECT_GEMINI, "",
	  "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"word%u "
	  "\"}]},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":9,"
	  "\"candidatesTokenCount\":9},\"modelVersion\":\"model-1\"}\r\n\r\n",
	  "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\".\"}]},\"finishReason\":\"STOP\"}]}\r\n\r\n" },
};

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts); /* CPU time only: other load does not count */
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void count_bytes(void *ctx, const char *s, size_t n) { *(size_t *)ctx += n; }

static double read_all(int fd, struct dialect_decoder *x)
{
	char chunk[CHUNK];
	double start = now_us();

	if (lseek(fd, 0, SEEK_SET) < 0)
		abort();
	for (ssize_t n; (n = read(fd, chunk, sizeof(chunk))) > 0;)
		if (x)
			dialect_decoder_feed(x, chunk, (size_t)n);
	return now_us() - start;
}

static void measure(size_t at, unsigned tokens)
{
	static const struct dialect_sink SINK = { .text = count_bytes };
	buf_auto struct buf stream = BUF_INIT;
	json_auto_t *headers = json_object();
	struct dialect_answer a;
	size_t delivered = 0;

	buf_str(&stream, STREAMS[at].begin);
	for (unsigned i = 0; i < tokens; i++)
		buf_printf(&stream, STREAMS[at].token, i);
	buf_str(&stream, STREAMS[at].end);
	int fd = memfd_create("stream", MFD_CLOEXEC);
	if (fd < 0 || write(fd, stream.data, stream.len) != (ssize_t)stream.len)
		abort();
	double bare = read_all(fd, NULL);
	bare = read_all(fd, NULL);
	struct dialect_decoder *x = dialect_decoder_new(STREAMS[at].d, &SINK, &delivered);
	dialect_decoder_head(x, 200, headers);
	double took = read_all(fd, x);
	dialect_decoder_finish(x, &a);
	dialect_decoder_free(x);
	double mb = (double)stream.len / 1e6;
	printf("%-17s %6.2f us per token, %6.2f ms per MB (bare read %.2f ms); %zu bytes of text from %.1f MB%s\n",
	       dialect_name(STREAMS[at].d), took / tokens, took / 1e3 / mb, bare / 1e3 / mb, delivered, mb,
	       a.complete ? "" : ": INCOMPLETE");
	dialect_answer_done(&a);
	close(fd);
}

int main(int argc, char **argv)
{
	unsigned tokens = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000;

	for (size_t i = 0; i < countof(STREAMS) && tokens; i++)
		measure(i, tokens);
	return 0;
}
