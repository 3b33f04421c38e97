/* Fuzzes sessions of TLS: a client of OpenSSL does what the input says, and what
 * it sends is cut, changed and mixed with other bytes on its way.  What comes back is what it has
 * sent, in order, and no chunk is lost. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>

#include "../unit/daemon/by_hand.h"
#include "fuzz.h"
#include "tls.h"

enum {
	CHUNKS = 64,
	CHUNK_SIZE = 16384,
	KEPT = 2,         /* chunks of the stage */
	UPDATES_MAX = 30, /* updates of keys in a row that are no flood */
};

extern const struct service service_echo;

/* One worker for all inputs, a connection and a client for each. */
static struct tls_stage *stage;
static struct worker worker;
static bool ended, receiving;
static unsigned long long flights,
	handshakes; /* of all inputs: what the server got, and accepted */

struct client {
	SSL *ssl;
	BIO *in, *out;
	unsigned sent, heard; /* bytes of data */
	unsigned updates;     /* of keys, up to UPDATES_MAX in a row */
	bool spoiled;         /* something else came to the server */
	bool shut;            /* it has sent close_notify */
};
static struct client client;

static uint8_t byte_at(unsigned position)
{
	return (uint8_t)(position * 2654435761U >> 24);
}

/* ---- The engine ---- */

static void fuzz_recv(struct conn *c, bool on)
{
	(void)c;
	receiving = on;
}

static void fuzz_flush(struct conn *c)
{
	while (c->tx.bytes) {
		const struct view *v = c->tx.head;

		BIO_write(client.in, v->data, (int)v->len);
		conn_sent(c, &c->tx, v->len, 0);
	}
}

static void fuzz_release(struct conn *c)
{
	(void)c;
	ended = true;
}

/* The server receives `bytes` in pieces. */
static void deliver(struct conn *c, const uint8_t *data, size_t bytes, size_t piece)
{
	flights += bytes > 0;
	for (size_t at = 0; at < bytes && !ended && receiving;)
		at += by_hand_input(c, data + at, MIN(piece, bytes - at));
}

/* ---- The client ---- */

static void client_read(void)
{
	uint8_t part[4096];
	int n;

	ERR_clear_error();
	while ((n = SSL_read(client.ssl, part, sizeof(part))) > 0)
		for (int i = 0; i < n; i++)
			assert(part[i] == byte_at(client.heard++));
	assert(client.heard <= client.sent);
}

/* What the client has written goes to the server; flip: the byte of it that is changed. */
static void carry(struct conn *c, size_t piece, size_t flip)
{
	uint8_t *data;
	size_t bytes = (size_t)BIO_get_mem_data(client.out, &data);

	if (flip < bytes) {
		data[flip] ^= 0x10;
		client.spoiled = true;
	}
	deliver(c, data, bytes, piece);
	(void)BIO_reset(client.out);
	client_read();
}

static void client_write(unsigned bytes)
{
	static uint8_t data[256 * 64];

	if (client.shut || bytes == 0 || !SSL_is_init_finished(client.ssl))
		return;
	for (unsigned i = 0; i < bytes; i++)
		data[i] = byte_at(client.sent + i);
	if (SSL_write(client.ssl, data, (int)bytes) == (int)bytes)
		client.sent += bytes;
}

static void client_shake_hands(struct conn *c, size_t piece)
{
	while (!ended && SSL_do_handshake(client.ssl) != 1 && BIO_ctrl_pending(client.out))
		carry(c, piece, SIZE_MAX);
	carry(c, piece, SIZE_MAX);
}

/* Each step is a byte that says what, and one that says how much. */
static void client_steps(struct conn *c, const uint8_t *data, size_t bytes, size_t piece)
{
	for (size_t at = 0; at + 2 <= bytes && !ended; at += 2) {
		uint8_t much = data[at + 1];
		size_t raw = MIN(much, bytes - at - 2);

		switch (data[at] % 8) {
		case 0:
			client_shake_hands(c, piece);
			break;
		case 1:
			client_write(much);
			break;
		case 2:
			client_write(much * 64U);
			break;
		case 3:
			if (SSL_key_update(client.ssl, much % 2))
				client.spoiled |= ++client.updates > UPDATES_MAX;
			break;
		case 4:
			client.shut |= SSL_shutdown(client.ssl) >= 0;
			break;
		case 5:
			carry(c, piece, much);
			break;
		case 6:
			deliver(c, data + at + 2, raw, piece);
			client.spoiled |= raw > 0;
			at += raw;
			break;
		default:
			carry(c, piece, SIZE_MAX);
		}
	}
	if (!ended)
		carry(c, piece, SIZE_MAX);
}

static void tell(void)
{
	fprintf(stderr, "flights: %llu, handshakes: %llu\n", flights, handshakes);
}

static void start(SSL_CTX **ret_ctx)
{
	static const struct engine engine = {
		.name = "fuzz",
		.open = by_hand_open,
		.recv = fuzz_recv,
		.flush = fuzz_flush,
		.close = by_hand_close,
		.release = fuzz_release,
	};
	struct tls_options options = { .mode = TLS_USER };
	struct reason reason;

	stage = tls_stage_new(&service_echo, &options, 1, UINT64_MAX, &reason);
	if (!stage)
		abort();
	by_hand_init(&worker, tls_stage_service(stage), &engine, CHUNKS, CHUNK_SIZE);
	worker.limits.held_max = CHUNKS / 4 * CHUNK_SIZE;
	worker.limits.views_few = worker.limits.views_max = CHUNKS;
	*ret_ctx = SSL_CTX_new(TLS_client_method());
	atexit(tell);
}

/* The first byte says how long the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static SSL_CTX *ctx;
	struct conn *c;

	if (bytes == 0)
		return 0;
	if (!ctx)
		start(&ctx);
	client = (struct client){ .ssl = SSL_new(ctx), .in = BIO_new(BIO_s_mem()) };
	client.out = BIO_new(BIO_s_mem());
	SSL_set_bio(client.ssl, client.in, client.out);
	SSL_set_connect_state(client.ssl);
	ended = false;
	receiving = true;
	worker.service = tls_stage_service(stage);
	conn_new(&worker, -1);
	c = worker.conns;
	by_hand_turns(&worker);
	client_steps(c, data + 1, bytes - 1, data[0] > 1 ? data[0] : CHUNK_SIZE);
	if (!ended)
		conn_eof(c);
	by_hand_turns(&worker);
	client_read();
	assert(ended && worker.pool.free_count + KEPT >= CHUNKS);
	assert(client.spoiled || client.heard == client.sent);
	handshakes += (unsigned)SSL_is_init_finished(client.ssl);
	SSL_free(client.ssl);
	return 0;
}
