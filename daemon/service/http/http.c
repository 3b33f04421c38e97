/* Service http: a small HTTP/1.1 server for load generators.  It serves GET /, GET /bytes/N, POST
 * /echo and POST /discard.
 *
 * No body is copied: /echo sends the received views, /bytes/N sends views of one chunk with a
 * pattern.  Only small pieces are copied, as a view for each byte would waste memory.  Replies
 * leave in the order of the requests.  While HTTP_QUEUE bytes of them are unsent, further requests
 * wait in rx.  A syntax error is answered with its status and ends the connection: later bytes are
 * not parsed as requests. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conn.h"
#include "conn_op.h"
#include "proto.h"

enum {
	HTTP_QUEUE = 256 * 1024, /* bytes kept ahead of the peer */
	HTTP_PIECE = 64 * 1024,  /* bytes of one view of the pattern */
	HTTP_LINE = 64,          /* bytes after which the pattern repeats */
	HTTP_REPLY_MAX = 512,    /* bytes of a head, with an error's body */
};

/* Time limit for a whole head from its first byte on, and for input behind the last reply. */
#define HTTP_HEADER_NS (10 * (uint64_t)NS_PER_S)
#define HTTP_LINGER_NS (500 * (uint64_t)NS_PER_MS)

enum operation { GET, BYTES, HEAD, ECHO, DISCARD, REFUSED };

enum phase {
	PHASE_HEAD,    /* reads a head */
	PHASE_REPLY,   /* answers it, or an error */
	PHASE_PATTERN, /* sends `left` bytes of the pattern */
	PHASE_BODY,    /* receives `left` bytes of a body or of its current chunk */
	PHASE_CHUNK,   /* parses the framing between chunks */
	PHASE_FRAME,   /* echo: writes the framing of a chunk; `left`: its size */
	PHASE_DONE,    /* the request is complete */
	PHASE_CLOSE,   /* drops input until all output is sent, then ends */
};

struct http_conn {
	struct http_parser parser;
	uint64_t left;
	int status;        /* of a refusal; 0: none */
	uint8_t phase;     /* enum phase */
	uint8_t operation; /* enum operation */
	uint8_t end;       /* in PHASE_CLOSE: enum conn_end */
	bool head_sent;    /* the reply's head has been queued */
	bool frame_sent;   /* the size line of its first chunk has been queued */
	bool close;        /* close after this reply */
	bool lost;         /* later input is neither parsed nor answered */
};

/* ---- Replies ---- */

/* Index of the variants of a head: no Connection field; keep-alive for HTTP/1.0; close. */
enum option { OPTION_NONE, OPTION_KEEP, OPTION_CLOSE };
static const char *const options[] = { "", "Connection: keep-alive\r\n", "Connection: close\r\n" };

#define TEXT   "Content-Type: text/plain\r\n"
#define BINARY "Content-Type: application/octet-stream\r\n"
#define BODY   "nbserved\n"
#define TEXT_OF(text)                                                                              \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}
#define ROOT(option, body)                                                                         \
	TEXT_OF("HTTP/1.1 200 OK\r\n" TEXT "Content-Length: 9\r\n" option "\r\n" body)
#define ROOTS(body)                                                                                \
	{                                                                                          \
		ROOT("", body), ROOT("Connection: keep-alive\r\n", body),                          \
			ROOT("Connection: close\r\n", body)                                        \
	}
/* The complete replies to GET / and HEAD /. */
static const struct text {
	const char *text;
	size_t bytes;
} get_root[] = ROOTS(BODY), head_root[] = ROOTS("");
static_assert(sizeof(BODY) - 1 == 9, "see ROOT()");

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{ 404, "Not Found" },       { 405, "Method Not Allowed" },
	{ 408, "Request Timeout" }, { 413, "Content Too Large" },
	{ 414, "URI Too Long" },    { 431, "Request Header Fields Too Large" },
	{ 501, "Not Implemented" }, { 505, "HTTP Version Not Supported" },
	{ 400, "Bad Request" }, /* must be last: also used for statuses not listed */
};

static enum option http_option(struct conn *c)
{
	struct http_conn *h = c->state;

	h->close |= !h->parser.keep_alive || c->worker->drain.on;
	if (h->close)
		return OPTION_CLOSE;
	return h->parser.minor == 0 ? OPTION_KEEP : OPTION_NONE;
}

/* false: the pool is exhausted; the service runs again when it is not. */
static bool http_write(struct conn *c, const char *text, size_t bytes)
{
	if (likely(conn_write(c, text, bytes) == 0))
		return true;
	/* Unsent output frees chunks when it is sent, and then runs the service if there is input.
	 * Only without it the service has to wait for memory. */
	if (!c->rx.bytes || !conn_has_unsent(c))
		conn_wait_for_memory(c);
	return false;
}

/* Writes the head of a reply with a body of `length` bytes, or with a chunked one. */
static bool http_write_head(struct conn *c, bool chunked, uint64_t length)
{
	struct http_conn *h = c->state;
	const char *fields = options[http_option(c)];
	char text[HTTP_REPLY_MAX];
	int n;

	if (chunked)
		n = snprintf(text, sizeof(text),
			     "HTTP/1.1 200 OK\r\n" BINARY "Transfer-Encoding: chunked\r\n%s\r\n",
			     fields);
	else
		n = snprintf(text, sizeof(text),
			     "HTTP/1.1 200 OK\r\n" BINARY "Content-Length: %" PRIu64 "\r\n%s\r\n",
			     length, fields);
	h->head_sent = http_write(c, text, (size_t)n);
	return h->head_sent;
}

static bool http_write_root(struct conn *c, bool head)
{
	const struct text *root = (head ? head_root : get_root) + http_option(c);

	return http_write(c, root->text, root->bytes);
}

/* Writes the reply for h->status, whose body is the name of the status. */
static bool http_write_status(struct conn *c)
{
	struct http_conn *h = c->state;
	bool body = h->parser.method != HTTP_HEAD;
	char text[HTTP_REPLY_MAX];
	const char *allow = "";
	unsigned i = 0;
	int n;

	while (i < ARRAY_SIZE(reasons) - 1 && reasons[i].status != h->status)
		i++;
	if (h->status == 405)
		allow = h->operation == ECHO || h->operation == DISCARD ? "Allow: POST\r\n"
									: "Allow: GET, HEAD\r\n";
	n = snprintf(text, sizeof(text),
		     "HTTP/1.1 %d %s\r\n" TEXT "Content-Length: %zu\r\n%s%s\r\n%s%s", h->status,
		     reasons[i].reason, strlen(reasons[i].reason) + 1, allow,
		     options[http_option(c)], body ? reasons[i].reason : "", body ? "\n" : "");
	return http_write(c, text, (size_t)n);
}

/* ---- The pattern ---- */

/* Fills the pattern: 63 characters and a newline, repeated. */
static void http_fill(uint8_t *bytes, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(i % HTTP_LINE == HTTP_LINE - 1 ? '\n' : '0' + i % HTTP_LINE);
}

static bool http_step_pattern(struct conn *c)
{
	struct http_conn *h = c->state;
	struct worker *w = c->worker;
	struct chunk *k = conn_constant(c, http_fill); /* exists: http_run() has made it */

	while (h->left && conn_queued_bytes(c) < HTTP_QUEUE) {
		uint64_t n = MIN(h->left, MIN(w->pool.chunk_size, (uint32_t)HTTP_PIECE));

		bufq_push(&c->tx, view_new(&w->pool, k, k->base, (uint32_t)n));
		h->left -= n;
	}
	if (h->left) {
		c->flags |= CONN_WATCH_TX;
		return false;
	}
	c->flags &= ~(uint32_t)CONN_WATCH_TX;
	conn_op_begin(c, BYTES); /* begun here: the latency is that of the last part only */
	h->phase = PHASE_BODY;
	h->left = h->parser.length;
	return true;
}

/* ---- Requests ---- */

/* A syntax error: neither this request nor the rest of the stream can be parsed. */
static void http_fail(struct conn *c, int status, enum conn_end end)
{
	struct http_conn *h = c->state;

	h->status = status;
	h->close = h->lost = true;
	h->end = (uint8_t)end;
	/* If part of the reply has been sent, the error only ends the connection. */
	h->phase = h->head_sent ? PHASE_CLOSE : PHASE_REPLY;
}

static bool path_is(const struct http_parser *p, const char *path)
{
	return p->path_bytes == strlen(path) && !memcmp(p->path, path, p->path_bytes);
}

/* The operation of a target, or REFUSED if there is no such resource. */
static enum operation http_find(struct http_conn *h)
{
	static const char bytes[] = "/bytes/";
	const struct http_parser *p = &h->parser;
	size_t prefix = sizeof(bytes) - 1;

	if (path_is(p, "/"))
		return GET;
	if (path_is(p, "/echo"))
		return ECHO;
	if (path_is(p, "/discard"))
		return DISCARD;
	if (p->path_bytes > prefix && p->path_bytes <= HTTP_PATH_MAX &&
	    !memcmp(p->path, bytes, prefix) &&
	    http_parse_size(p->path + prefix, p->path_bytes - prefix, &h->left) == 0)
		return BYTES;
	return REFUSED;
}

/* Chooses the operation by target and method.  Sets h->status if the request is refused. */
static void http_route(struct http_conn *h)
{
	enum http_method method = h->parser.method;
	enum operation operation = http_find(h);
	bool post = operation == ECHO || operation == DISCARD;

	h->operation = (uint8_t)operation;
	if (method == HTTP_UNKNOWN)
		h->status = 501;
	else if (operation == REFUSED)
		h->status = 404;
	else if (method == HTTP_OTHER || post != (method == HTTP_POST))
		h->status = 405;
}

static bool http_step_head(struct conn *c)
{
	struct http_conn *h = c->state;
	size_t used;
	int rc;

	if (!c->rx.bytes || conn_queued_bytes(c) >= HTTP_QUEUE)
		return false;
	rc = http_parse_head(&h->parser, c->rx.head->data, c->rx.head->len, &used);
	bufq_drop(&c->worker->pool, &c->rx, used);
	if (rc == HTTP_MORE)
		return true;
	conn_set_deadline(c, 0);
	if (rc == HTTP_OK) {
		h->phase = PHASE_REPLY;
		http_route(h);
	} else {
		http_fail(c, rc, CONN_END_PROTOCOL);
	}
	return true;
}

static bool http_answer_status(struct conn *c)
{
	struct http_conn *h = c->state;

	/* A client that sent Expect may send its body after such an answer, or may not.  So only
	 * closing the connection is safe. */
	if (h->parser.expect_continue)
		h->close = h->lost = true;
	if (!http_write_status(c))
		return false;
	conn_op_begin(c, REFUSED);
	stat_add(c->worker->stats.operations[REFUSED].errors, 1);
	h->operation = REFUSED;
	h->head_sent = true;
	h->phase = h->lost ? PHASE_CLOSE : PHASE_BODY;
	h->left = h->parser.length;
	return true;
}

/* A request with a body is answered after the body has been received. */
static bool http_expect_body(struct conn *c)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct http_conn *h = c->state;
	const struct http_parser *p = &h->parser;

	if (p->expect_continue && p->minor && (p->chunked || p->length) && !c->rx.bytes &&
	    !http_write(c, text, sizeof(text) - 1))
		return false;
	h->phase = PHASE_BODY;
	h->left = p->length;
	return true;
}

static bool http_step_reply(struct conn *c)
{
	struct http_conn *h = c->state;
	bool head = h->parser.method == HTTP_HEAD;

	if (h->status)
		return http_answer_status(c);
	switch ((enum operation)h->operation) {
	case ECHO:
	case DISCARD:
		return http_expect_body(c);
	case BYTES:
		if (!http_write_head(c, false, h->left))
			return false;
		h->phase = head || !h->left ? PHASE_BODY : PHASE_PATTERN;
		break;
	default:
		if (!http_write_root(c, head))
			return false;
		h->head_sent = true;
		h->phase = PHASE_BODY;
	}
	if (h->phase == PHASE_BODY) {
		conn_op_begin(c, head ? HEAD : h->operation);
		h->left = h->parser.length;
	}
	return true;
}

/* ---- Bodies: those of GET and of refused requests are dropped ---- */

static bool http_step_body(struct conn *c)
{
	struct http_conn *h = c->state;
	struct pool *p = &c->worker->pool;
	size_t n = (size_t)MIN(h->left, (uint64_t)c->rx.bytes);

	if (h->left == 0) {
		h->phase = h->parser.chunked ? PHASE_CHUNK : PHASE_DONE;
		return true;
	}
	if (n == 0)
		return false;
	if (h->operation == ECHO) {
		if (!h->head_sent && !http_write_head(c, false, h->left))
			return false;
		n = MIN(n, (size_t)c->rx.head->len);
		if (n <= CONN_COPY_MAX && conn_write(c, c->rx.head->data, n) == 0)
			bufq_drop(p, &c->rx, n);
		else
			bufq_take(p, &c->tx, &c->rx, n);
	} else {
		bufq_drop(p, &c->rx, n);
	}
	h->left -= n;
	return true;
}

static bool http_step_chunk(struct conn *c)
{
	struct http_conn *h = c->state;
	size_t used;
	int rc;

	if (!c->rx.bytes)
		return false;
	rc = http_parse_chunk(&h->parser, c->rx.head->data, c->rx.head->len, &used);
	bufq_drop(&c->worker->pool, &c->rx, used);
	if (rc >= HTTP_STATUS) {
		http_fail(c, rc, CONN_END_PROTOCOL);
	} else if (rc != HTTP_MORE) {
		h->left = rc == HTTP_DATA ? h->parser.left : 0;
		h->phase = rc == HTTP_DATA ? PHASE_BODY : PHASE_DONE;
		if (h->operation == ECHO)
			h->phase = PHASE_FRAME;
	}
	return true;
}

/* /echo: the reply's chunks equal those of the request. */
static bool http_step_frame(struct conn *c)
{
	struct http_conn *h = c->state;
	char text[32];
	int n;

	if (!h->head_sent && !http_write_head(c, true, 0))
		return false;
	n = snprintf(text, sizeof(text), "%s%" PRIx64 "\r\n%s", h->frame_sent ? "\r\n" : "",
		     h->left, h->left ? "" : "\r\n");
	if (!http_write(c, text, (size_t)n))
		return false;
	h->frame_sent = true;
	h->phase = h->left ? PHASE_BODY : PHASE_DONE;
	return true;
}

static bool http_step_done(struct conn *c)
{
	struct http_conn *h = c->state;

	if (!h->head_sent && !http_write_head(c, false, 0))
		return false;
	if (h->operation == ECHO || h->operation == DISCARD)
		conn_op_begin(c, h->operation);
	if (h->close) {
		h->phase = PHASE_CLOSE;
		return true;
	}
	http_parser_init(&h->parser);
	h->phase = PHASE_HEAD;
	h->operation = GET;
	h->status = 0;
	h->head_sent = h->frame_sent = false;
	return true;
}

/* ---- The end ---- */

/* Ends the connection so that the client can read the last reply (RFC 9112, 9.6).  Closing a socket
 * with unread input resets the connection, and the reply may be lost.  So, if more input may come,
 * the FIN is sent first, and input is dropped for HTTP_LINGER_NS. */
static bool http_step_close(struct conn *c)
{
	struct http_conn *h = c->state;

	h->lost |= h->parser.keep_alive || c->rx.bytes > 0;
	bufq_clear(&c->worker->pool, &c->rx);
	if (!h->lost || h->end == CONN_END_IDLE || (c->flags & (CONN_EOF | CONN_DUE))) {
		conn_close_when_sent(c, (enum conn_end)h->end);
	} else if (conn_has_unsent(c)) {
		c->flags |= CONN_WATCH_TX;
	} else if (!c->due.ns) {
		conn_end_output(c);
		conn_set_deadline(c, clock_ns() + HTTP_LINGER_NS);
	}
	return false;
}

/* Performs one step; false: none is possible now. */
static bool http_step(struct conn *c)
{
	static bool (*const steps[])(struct conn * c) = {
		[PHASE_HEAD] = http_step_head,       [PHASE_REPLY] = http_step_reply,
		[PHASE_PATTERN] = http_step_pattern, [PHASE_BODY] = http_step_body,
		[PHASE_CHUNK] = http_step_chunk,     [PHASE_FRAME] = http_step_frame,
		[PHASE_DONE] = http_step_done,       [PHASE_CLOSE] = http_step_close,
	};
	const struct http_conn *h = c->state;

	return steps[h->phase](c);
}

static void http_run(struct conn *c)
{
	struct http_conn *h = c->state;

	if (unlikely(!conn_constant(c, http_fill)))
		return;
	while (http_step(c))
		;
	if (h->phase != PHASE_HEAD || c->rx.bytes || !http_parser_in_head(&h->parser))
		return;
	/* A partial head is there: the rest has a time limit. */
	if (!conn_await_input(c, HTTP_HEADER_NS, HTTP_HEAD_MAX)) {
		conn_set_deadline(c, 0);
		http_fail(c, 408, CONN_END_IDLE);
		while (http_step(c))
			;
	}
}

const struct service service_http = {
	.name = "http",
	.flags = SERVICE_TLS,
	.example = "wrk -d 5 http://{host}:{port}/",
	.example_tls = "wrk -d 5 https://{host}:{port}/",
	.operations = { "get", "bytes", "head", "echo", "discard", "refused" },
	.state_bytes = sizeof(struct http_conn),
	.run = http_run,
};
