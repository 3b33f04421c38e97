/* tls/stage.c: listeners whose records the kernel seals and opens.  This file is that
 * kernel: it has the system calls by which the daemon gives keys, and seals and opens with exactly
 * these, so a client of OpenSSL understands it only if keys, their order and the moment are right.
 */
#include <errno.h>
#include <linux/tls.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake_engine.h"
#include "registry.h"
#include "tls.h"
#include "unit.h"
#include "util.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
enum { INPUT = 100000, HEAD = 5, TAG = 16, RECORD = 16384, ALERT = 21, DATA = 23 };

static uint8_t input[INPUT];

/* ---- The kernel ---- */

/* One direction of the only socket. */
struct side {
	const EVP_CIPHER *cipher; /* NULL: it has no keys */
	uint8_t key[32], iv[12];
	uint64_t number; /* of the next record */
	size_t from;     /* of what is sent: the first byte that is sealed */
};

static struct {
	struct side sends, receives;
	uint8_t wire[4 * INPUT]; /* from the client */
	size_t wire_bytes, taken;
	uint8_t type, control[64]; /* the record that is no data; no bytes: none */
	size_t control_bytes;
	const struct fake_peer *peer;
	size_t closed_at; /* how many bytes were sent before close_notify; 0: none was */
	bool refuses;     /* keys */
	bool full;        /* the socket has no room */
	bool ended;       /* the client has sent its FIN */
} kernel;

static void take_keys(struct side *side, const uint8_t *given, size_t bytes)
{
	static const struct {
		uint16_t number;
		const EVP_CIPHER *(*cipher)(void);
		size_t salt;
	} kinds[] = { { TLS_CIPHER_AES_GCM_128, EVP_aes_128_gcm, 4 },
		      { TLS_CIPHER_AES_GCM_256, EVP_aes_256_gcm, 4 },
		      { TLS_CIPHER_CHACHA20_POLY1305, EVP_chacha20_poly1305, 0 } };
	const struct tls_crypto_info *info = (const void *)given;
	const uint8_t *at = given + sizeof(*info);
	static const uint8_t first[8];

	assert_null(side->cipher);
	assert_int_equal(info->version, TLS_1_3_VERSION);
	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		size_t salt = kinds[i].salt, key;

		if (kinds[i].number != info->cipher_type)
			continue;
		side->cipher = kinds[i].cipher();
		key = (size_t)EVP_CIPHER_get_key_length(side->cipher);
		assert_int_equal(bytes, sizeof(*info) + 12 + key + 8);
		memcpy(side->iv + salt, at, 12 - salt);
		memcpy(side->key, at + 12 - salt, key);
		memcpy(side->iv, at + 12 - salt + key, salt);
		assert_memory_equal(at + 12 + key, first, 8);
	}
	side->from = kernel.peer ? kernel.peer->out_bytes : 0;
}

int setsockopt(int fd, int level, int optname, const void *optval, socklen_t optlen)
{
	if (level == IPPROTO_TCP && optname == TCP_ULP)
		return 0;
	if (level != SOL_TLS)
		return (int)syscall(SYS_setsockopt, fd, level, optname, optval, optlen);
	if (kernel.refuses) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (optname == TLS_TX)
		take_keys(&kernel.sends, optval, optlen);
	else if (optname == TLS_RX)
		take_keys(&kernel.receives, optval, optlen);
	return 0;
}

/* A receive of the stage itself, before the kernel opens records. */
ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	(void)fd;
	assert_int_equal(flags, MSG_DONTWAIT);
	assert_null(kernel.receives.cipher);
	n = MIN(n, kernel.wire_bytes - kernel.taken);
	if (n == 0 && !kernel.ended) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(buf, kernel.wire + kernel.taken, n);
	kernel.taken += n;
	return (ssize_t)n;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	size_t bytes = MIN(kernel.control_bytes, message->msg_iov->iov_len);

	(void)fd, (void)flags;
	if (bytes == 0) {
		errno = EAGAIN;
		return -1;
	}
	*header = (struct cmsghdr){ CMSG_LEN(1), SOL_TLS, TLS_GET_RECORD_TYPE };
	*CMSG_DATA(header) = kernel.type;
	memcpy(message->msg_iov->iov_base, kernel.control, bytes);
	kernel.control_bytes = 0;
	return (ssize_t)bytes;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	static const uint8_t close_notify[] = { 1, 0 };

	(void)fd, (void)flags;
	assert_int_equal(*CMSG_DATA(CMSG_FIRSTHDR(message)), ALERT);
	assert_memory_equal(message->msg_iov->iov_base, close_notify, 2);
	assert_int_equal(kernel.closed_at, 0);
	kernel.closed_at = kernel.peer->out_bytes;
	return 2;
}

#pragma GCC diagnostic push
#ifndef __clang__ /* glibc says that it only writes fds */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
int poll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct timespec ts = { timeout / 1000, timeout % 1000 * 1000000L };

	if (nfds == 1 && fds->events == POLLOUT)
		return !kernel.full;
	return (int)syscall(SYS_ppoll, fds, nfds, timeout < 0 ? NULL : &ts, NULL, 0);
}
#pragma GCC diagnostic pop

static EVP_CIPHER_CTX *next_record(struct side *side, bool seal, const uint8_t head[static HEAD])
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	uint8_t nonce[12];
	int n;

	for (unsigned i = 0; i < 12; i++)
		nonce[i] = (uint8_t)(side->iv[i] ^ (i < 4 ? 0 : side->number >> 8 * (11 - i)));
	side->number++;
	assert_true(EVP_CipherInit_ex(ctx, side->cipher, NULL, side->key, nonce, seal));
	assert_true(EVP_CipherUpdate(ctx, NULL, &n, head, HEAD));
	return ctx;
}

static void seal(BIO *to, uint8_t type, const uint8_t *data, size_t bytes)
{
	uint8_t record[HEAD + RECORD + 1 + TAG] = { DATA, 3, 3, (uint8_t)((bytes + 1 + TAG) >> 8),
						    (uint8_t)(bytes + 1 + TAG) };
	EVP_CIPHER_CTX *ctx = next_record(&kernel.sends, true, record);
	int n;

	EVP_CipherUpdate(ctx, record + HEAD, &n, data, (int)bytes);
	EVP_CipherUpdate(ctx, record + HEAD + bytes, &n, &type, 1);
	EVP_CipherFinal_ex(ctx, record, &n);
	EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG, record + HEAD + bytes + 1);
	EVP_CIPHER_CTX_free(ctx);
	BIO_write(to, record, (int)(HEAD + bytes + 1 + TAG));
}

/* Opens a record; its type, 0: it is broken. */
static uint8_t open_record(uint8_t *record, size_t bytes, uint8_t *to, size_t *ret_bytes)
{
	EVP_CIPHER_CTX *ctx = next_record(&kernel.receives, false, record);
	int n, rest;
	bool good;

	EVP_CipherUpdate(ctx, to, &n, record + HEAD, (int)(bytes - HEAD - TAG));
	EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TAG, record + bytes - TAG);
	good = EVP_CipherFinal_ex(ctx, to + n, &rest) > 0;
	EVP_CIPHER_CTX_free(ctx);
	*ret_bytes = (size_t)n - 1;
	return good ? to[n - 1] : 0;
}

/* ---- The client ---- */

struct talk {
	struct tls_stage *stage;
	struct fake *fake;
	struct fake_peer *peer;
	SSL_CTX *ctx;
	SSL *ssl;
	BIO *in, *out; /* of the client, in memory */
	size_t heard;  /* bytes of peer->out that the client has */
	unsigned mode;
	uint32_t kept; /* chunks that the stage keeps, to write contents and records to */
};

static void talk_start(struct talk *t, const char *service, unsigned mode, unsigned cipher)
{
	struct tls_options options = { .mode = mode, .cipher = cipher };
	struct reason reason = { "" };

	*t = (struct talk){ .mode = mode, .ctx = SSL_CTX_new(TLS_client_method()) };
	t->kept = mode == TLS_KTLS_TX ? 2 : 1;
	memset(&kernel, 0, sizeof(kernel));
	t->stage = tls_stage_new(registry_service(service), &options, 1, UINT64_MAX, &reason);
	assert_string_equal(reason.text, "");
	memset(&kernel, 0, sizeof(kernel)); /* the probe's keys */
	t->fake = fake_start(tls_stage_service(t->stage), 256, 16384, 0);
	t->peer = fake_connect(t->fake);
	kernel.peer = t->peer;
	t->ssl = SSL_new(t->ctx);
	t->in = BIO_new(BIO_s_mem());
	t->out = BIO_new(BIO_s_mem());
	SSL_set_bio(t->ssl, t->in, t->out);
	SSL_set_connect_state(t->ssl);
}

static void talk_stop(struct talk *t)
{
	SSL_free(t->ssl);
	SSL_CTX_free(t->ctx);
	t->fake->kept = t->kept;
	fake_stop(t->fake);
	tls_stage_free(t->stage);
}

/* The server receives what is on the wire. */
static void deliver(struct talk *t)
{
	static uint8_t data[RECORD + 1];

	if (t->mode == TLS_KTLS_TX) {
		fake_send_all(t->fake, t->peer, kernel.wire + kernel.taken,
			      kernel.wire_bytes - kernel.taken, 4096);
		kernel.taken = kernel.wire_bytes;
		return;
	}
	if (!kernel.receives.cipher && t->peer->conn) {
		conn_ready(t->peer->conn);
		fake_settle(t->fake);
	}
	while (kernel.receives.cipher && kernel.taken < kernel.wire_bytes && t->peer->conn) {
		uint8_t *record = kernel.wire + kernel.taken;
		size_t bytes = HEAD + (size_t)(record[3] << 8 | record[4]), n;

		kernel.type = open_record(record, bytes, data, &n);
		kernel.taken += bytes;
		if (kernel.type == DATA) {
			fake_send_all(t->fake, t->peer, data, n, 4096);
			continue;
		}
		kernel.control_bytes = n;
		memcpy(kernel.control, data, MIN(n, sizeof(kernel.control)));
		conn_failed(t->peer->conn, kernel.type ? EIO : EBADMSG);
		fake_settle(t->fake);
	}
}

/* The client receives what the server has sent. */
static void hear(struct talk *t)
{
	static const uint8_t close_notify[] = { 1, 0 };
	const uint8_t *out = t->peer->out;
	size_t plain = kernel.sends.cipher ? kernel.sends.from : t->peer->out_bytes;

	if (t->heard < plain) {
		BIO_write(t->in, out + t->heard, (int)(plain - t->heard));
		t->heard = plain;
	}
	while (t->heard < t->peer->out_bytes) {
		size_t n = MIN(t->peer->out_bytes - t->heard, (size_t)RECORD);

		seal(t->in, DATA, out + t->heard, n);
		t->heard += n;
	}
	if (kernel.closed_at) {
		assert_int_equal(kernel.closed_at, t->heard);
		seal(t->in, ALERT, close_notify, 2);
		kernel.closed_at = 0;
	}
}

static void carry(struct talk *t)
{
	char *data;
	size_t bytes = (size_t)BIO_get_mem_data(t->out, &data);

	assert_true(kernel.wire_bytes + bytes <= sizeof(kernel.wire));
	memcpy(kernel.wire + kernel.wire_bytes, data, bytes);
	kernel.wire_bytes += bytes;
	(void)BIO_reset(t->out);
	deliver(t);
	hear(t);
}

static void shake_hands(struct talk *t)
{
	while (SSL_do_handshake(t->ssl) != 1)
		carry(t);
}

static void check_heard(struct talk *t, size_t bytes)
{
	static uint8_t back[INPUT];
	size_t got = 0, n;

	while (got < bytes && SSL_read_ex(t->ssl, back + got, bytes - got, &n))
		got += n;
	assert_int_equal(got, bytes);
	assert_memory_equal(back, input, bytes);
}

static void check_echo(struct talk *t, size_t bytes)
{
	assert_true(SSL_write(t->ssl, input, (int)bytes) == (int)bytes);
	carry(t);
	check_heard(t, bytes);
}

static struct stats *stats_of(const struct talk *t)
{
	return &t->fake->worker.stats;
}

/* ---- Tests ---- */

static void check_session(unsigned mode, unsigned cipher, bool completion)
{
	CLEANUP(talk_stop) struct talk t;

	talk_start(&t, "echo", mode, cipher);
	t.fake->completion = completion;
	shake_hands(&t);
	for (size_t bytes = 1; bytes < INPUT / 4; bytes = bytes * 3 + 1)
		check_echo(&t, bytes);
	SSL_shutdown(t.ssl);
	carry(&t);
	assert_int_equal(SSL_shutdown(t.ssl), 1); /* the server's close_notify */
	assert_null(t.peer->conn);
	assert_int_equal(stat_load(stats_of(&t)->tls_kernel_sends), 1);
	assert_int_equal(stat_load(stats_of(&t)->tls_kernel_receives), mode == TLS_KTLS);
	assert_int_equal(stat_load(stats_of(&t)->tls_failed), 0);
	assert_int_equal(stat_load(stats_of(&t)->tls_truncated), 0);
	assert_true(stat_load(stats_of(&t)->tls_plain_in) > INPUT / 8);
	assert_int_equal(stat_load(stats_of(&t)->tls_plain_in),
			 stat_load(stats_of(&t)->tls_plain_out));
}

TEST(the_kernel_continues_the_session)
{
	for (unsigned cipher = 0; tls_ciphers[cipher]; cipher++)
		for (unsigned mode = TLS_KTLS_TX; tls_modes[mode]; mode++)
			for (unsigned completion = 0; completion < 2; completion++)
				check_session(mode, cipher, completion);
}

TEST(data_directly_behind_the_handshake_is_served)
{
	for (unsigned mode = TLS_KTLS_TX; tls_modes[mode]; mode++) {
		CLEANUP(talk_stop) struct talk t;

		talk_start(&t, "echo", mode, 0);
		shake_hands(&t);
		assert_true(SSL_write(t.ssl, input, 5000) == 5000); /* with its Finished */
		carry(&t);
		check_heard(&t, 5000);
	}
}

TEST(the_service_ends_behind_its_output)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

	for (unsigned mode = TLS_KTLS_TX; tls_modes[mode]; mode++) {
		CLEANUP(talk_stop) struct talk t;
		char answer[1000];

		talk_start(&t, "http", mode, 0);
		t.kept++; /* and the service */
		shake_hands(&t);
		assert_true(SSL_write(t.ssl, request, sizeof(request) - 1) > 0);
		kernel.full = true;
		carry(&t);
		assert_true(SSL_read(t.ssl, answer, sizeof(answer)) > 0);
		assert_non_null(t.peer->conn); /* the kernel may hold records */
		kernel.full = false;
		while (t.peer->conn)
			fake_turn(t.fake);
		hear(&t);
		assert_int_equal(SSL_read(t.ssl, answer, sizeof(answer)), 0);
		assert_int_equal(SSL_get_shutdown(t.ssl), SSL_RECEIVED_SHUTDOWN);
	}
}

TEST(other_keys_end_the_connection)
{
	for (unsigned mode = TLS_KTLS_TX; tls_modes[mode]; mode++) {
		CLEANUP(talk_stop) struct talk t;

		talk_start(&t, "echo", mode, 0);
		shake_hands(&t);
		check_echo(&t, 10);
		if (mode == TLS_KTLS_TX) { /* the library opens, and can follow the client's */
			assert_true(SSL_key_update(t.ssl, SSL_KEY_UPDATE_NOT_REQUESTED));
			check_echo(&t, 10);
		}
		assert_true(SSL_key_update(t.ssl, SSL_KEY_UPDATE_REQUESTED));
		assert_true(SSL_do_handshake(t.ssl));
		carry(&t);
		assert_null(t.peer->conn);
		assert_int_equal(stat_load(stats_of(&t)->tls_key_updates), 1);
	}
}

TEST(a_broken_record_ends_the_connection)
{
	for (unsigned mode = TLS_KTLS_TX; tls_modes[mode]; mode++) {
		CLEANUP(talk_stop) struct talk t;
		char *data;

		talk_start(&t, "echo", mode, 0);
		shake_hands(&t);
		check_echo(&t, 10);
		assert_true(SSL_write(t.ssl, input, 10) == 10);
		BIO_get_mem_data(t.out, &data);
		data[HEAD] ^= 1;
		carry(&t);
		assert_null(t.peer->conn);
		assert_int_equal(stat_load(stats_of(&t)->tls_failed), 1);
		assert_int_equal(stat_load(stats_of(&t)->closed_protocol), 1);
	}
}

TEST(without_the_kernels_keys_nothing_is_served)
{
	for (unsigned mode = TLS_KTLS_TX; tls_modes[mode]; mode++) {
		CLEANUP(talk_stop) struct talk t;

		talk_start(&t, "echo", mode, 0);
		kernel.refuses = true;
		SSL_do_handshake(t.ssl);
		carry(&t);
		assert_int_equal(SSL_do_handshake(t.ssl), 1);
		SSL_write(t.ssl, input, 10);
		carry(&t);
		assert_null(t.peer->conn);
		assert_int_equal(stat_load(stats_of(&t)->tls_kernel_refused), 1);
		assert_int_equal(stat_load(stats_of(&t)->operations[0].count), 0);
		t.kept = 1; /* no contents were opened */
	}
}

/* The flags of a client of nbd, and its option STARTTLS; LIST. */
static const uint8_t nbd_clear[] = { 0,   0,   0, 1, 'I', 'H', 'A', 'V', 'E', 'O',
				     'P', 'T', 0, 0, 0,   5,   0,   0,   0,   0 };
static const uint8_t nbd_list[] = {
	'I', 'H', 'A', 'V', 'E', 'O', 'P', 'T', 0, 0, 0, 3, 0, 0, 0, 0
};
enum { NBD_GREETING = 18, NBD_REPLY = 20 };

static void say_in_clear(struct talk *t, const uint8_t *data, size_t bytes)
{
	memcpy(kernel.wire + kernel.wire_bytes, data, bytes);
	kernel.wire_bytes += bytes;
	deliver(t);
	t->heard = t->peer->out_bytes;
}

TEST(nbd_begins_in_clear)
{
	for (unsigned mode = TLS_KTLS_TX; tls_modes[mode]; mode++) {
		CLEANUP(talk_stop) struct talk t;
		uint8_t answer[2 * NBD_REPLY];

		talk_start(&t, "nbd", mode, 0);
		for (size_t i = 0; i < sizeof(nbd_clear); i++)
			say_in_clear(&t, nbd_clear + i, 1);
		assert_int_equal(t.heard, NBD_GREETING + NBD_REPLY);
		shake_hands(&t);
		assert_true(SSL_write(t.ssl, nbd_list, sizeof(nbd_list)) == sizeof(nbd_list));
		carry(&t);
		assert_int_equal(SSL_read(t.ssl, answer, sizeof(answer)), NBD_REPLY);
		assert_int_equal(stat_load(stats_of(&t)->tls_kernel_sends), 1);
		assert_int_equal(stat_load(stats_of(&t)->tls_kernel_receives), mode == TLS_KTLS);
		assert_int_equal(stat_load(stats_of(&t)->tls_plain_in), sizeof(nbd_list));
		assert_int_equal(stat_load(stats_of(&t)->tls_plain_out), NBD_REPLY);
		t.kept = 2;
	}
}

TEST(what_is_put_behind_starttls_ends_the_connection)
{
	for (unsigned mode = TLS_KTLS_TX; tls_modes[mode]; mode++) {
		uint8_t both[sizeof(nbd_clear) + sizeof(nbd_list)];
		CLEANUP(talk_stop) struct talk t;

		memcpy(mempcpy(both, nbd_clear, sizeof(nbd_clear)), nbd_list, sizeof(nbd_list));
		talk_start(&t, "nbd", mode, 0);
		say_in_clear(&t, both, sizeof(both));
		assert_int_equal(t.heard, NBD_GREETING);
		assert_null(t.peer->conn);
		assert_int_equal(stat_load(stats_of(&t)->closed_protocol), 1);
		t.kept = mode == TLS_KTLS; /* it has received */
	}
}

/* Which the stage notices by itself before the kernel opens records. */
TEST(a_client_goes_before_tls_and_within_it)
{
	static const char *const names[] = { "nbd", "echo" };

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		CLEANUP(talk_stop) struct talk t;

		talk_start(&t, names[i], TLS_KTLS, 0);
		SSL_do_handshake(t.ssl); /* its first flight waits in t.out */
		kernel.ended = true;
		if (i == 0)
			say_in_clear(&t, nbd_clear, 10);
		else
			carry(&t);
		assert_null(t.peer->conn);
		assert_int_equal(stat_load(stats_of(&t)->closed_peer), 1);
		assert_int_equal(stat_load(stats_of(&t)->tls_failed), 0);
	}
}

static int fill_input(void **state)
{
	(void)state;
	for (unsigned i = 0; i < INPUT; i++)
		input[i] = (uint8_t)(i * 2654435761U >> 24);
	return 0;
}

ALL_TESTS_WITH(fill_input, NULL)
