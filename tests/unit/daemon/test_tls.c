/* tls/stage.c: a client of OpenSSL in memory talks to services through the stage,
 * however its records are cut, and floods it. */
#include <openssl/ssl.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_engine.h"
#include "registry.h"
#include "tls.h"
#include "unit.h"
#include "util.h"

enum { INPUT = 100000 };

static uint8_t input[INPUT];

struct talk {
	struct tls_stage *stage;
	struct fake *fake;
	struct fake_peer *peer;
	uint32_t kept; /* chunks that the stage keeps */
	SSL_CTX *ctx;
	SSL *ssl;
	BIO *in, *out; /* of the client, in memory */
	size_t taken;  /* bytes of peer->out that the client has */
	size_t piece;  /* bytes that the server receives at a time */
};

static void talk_start_with(struct talk *t, const struct tls_options *options, const char *service,
			    uint32_t chunks, uint32_t chunk_size)
{
	struct reason reason = { "" };

	t->stage = tls_stage_new(registry_service(service), options, 1, UINT64_MAX, &reason);
	assert_string_equal(reason.text, "");
	t->fake = fake_start(tls_stage_service(t->stage), chunks, chunk_size, 0);
	t->peer = fake_connect(t->fake);
	t->ctx = SSL_CTX_new(TLS_client_method());
	t->ssl = SSL_new(t->ctx);
	t->in = BIO_new(BIO_s_mem());
	t->out = BIO_new(BIO_s_mem());
	SSL_set_bio(t->ssl, t->in, t->out);
	SSL_set_connect_state(t->ssl);
	t->taken = 0;
	t->piece = SIZE_MAX;
	t->kept = 2; /* to write contents and records to */
}

static void talk_start(struct talk *t, const char *service, uint32_t chunks, uint32_t chunk_size)
{
	talk_start_with(t, &(struct tls_options){ .mode = TLS_USER }, service, chunks, chunk_size);
}

static void talk_stop(struct talk *t)
{
	SSL_free(t->ssl);
	SSL_CTX_free(t->ctx);
	t->fake->kept = t->kept;
	fake_stop(t->fake);
	tls_stage_free(t->stage);
}

/* Carries what the client has written to the server, and what that answers to the client. */
static void carry(struct talk *t)
{
	char *data;
	size_t bytes = (size_t)BIO_get_mem_data(t->out, &data);

	if (bytes > 0)
		fake_send_all(t->fake, t->peer, data, bytes, MIN(t->piece, bytes));
	(void)BIO_reset(t->out);
	fake_settle(t->fake);
	BIO_write(t->in, t->peer->out + t->taken, (int)(t->peer->out_bytes - t->taken));
	t->taken = t->peer->out_bytes;
}

static void shake_hands(struct talk *t)
{
	while (SSL_do_handshake(t->ssl) != 1)
		carry(t);
	carry(t);
}

static void check_echo(struct talk *t, size_t bytes)
{
	static uint8_t back[INPUT];
	size_t got = 0, n;

	assert_true(SSL_write(t->ssl, input, (int)bytes) == (int)bytes);
	carry(t);
	while (got < bytes && SSL_read_ex(t->ssl, back + got, bytes - got, &n))
		got += n;
	assert_int_equal(got, bytes);
	assert_memory_equal(back, input, bytes);
}

static uint64_t failed(const struct talk *t)
{
	return stat_load(t->fake->worker.stats.tls_failed);
}

/* The key of test_nvme_key.c, of SHA-384, which neither s_client nor Debian 13's tlshd can prove.
 */
static const char nvme_identity[] =
	"NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys "
	"QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a";

static int use_nvme_key(SSL *ssl, const EVP_MD *digest, const unsigned char **identity,
			size_t *bytes, SSL_SESSION **session)
{
	static const char key[] = "a2b2f943f479fc682555cec89857c80ed004ce92f32a973d"
				  "5764155bb7e36b17a85368a0666d250afac9282dda2e62ca";
	static const unsigned char suite[] = { 0x13, 0x02 };
	long key_bytes;
	unsigned char *data = OPENSSL_hexstr2buf(key, &key_bytes);

	(void)digest;
	*identity = (const unsigned char *)nvme_identity;
	*bytes = sizeof(nvme_identity) - 1;
	*session = SSL_SESSION_new();
	assert_true(SSL_SESSION_set1_master_key(*session, data, (size_t)key_bytes));
	assert_true(SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, suite)));
	assert_true(SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION));
	OPENSSL_free(data);
	return 1;
}

TEST(a_host_of_nvme_proves_a_key_of_sha384)
{
	static const char line[] = "nqn.psk-test-host NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/"
				   "DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:\n";
	struct tls_options options = { .mode = TLS_USER,
				       .cipher = 1,
				       .psk_file = "/tmp/keysXXXXXX" };
	CLEANUP(talk_stop) struct talk t;
	int fd = mkstemp(options.psk_file);

	assert_int_equal(write(fd, line, sizeof(line) - 1), sizeof(line) - 1);
	close(fd);
	talk_start_with(&t, &options, "echo", 256, 16384);
	unlink(options.psk_file);
	SSL_set_psk_use_session_callback(t.ssl, use_nvme_key);
	shake_hands(&t);
	assert_string_equal(tls_stage_service(t.stage)->identity(t.peer->conn), nvme_identity);
	check_echo(&t, 3000);
}

TEST(a_flood_of_key_updates_ends_the_connection)
{
	CLEANUP(talk_stop) struct talk t;

	talk_start(&t, "echo", 256, 16384);
	shake_hands(&t);
	/* With data between them any number will do. */
	for (unsigned i = 0; i < 100; i++) {
		assert_true(SSL_key_update(t.ssl, SSL_KEY_UPDATE_REQUESTED));
		check_echo(&t, 10);
	}
	assert_non_null(t.peer->conn);
	for (unsigned i = 0; i < 100; i++) {
		assert_true(SSL_key_update(t.ssl, SSL_KEY_UPDATE_NOT_REQUESTED));
		assert_true(SSL_do_handshake(t.ssl));
	}
	carry(&t);
	assert_null(t.peer->conn);
	assert_int_equal(failed(&t), 1);
}

TEST(a_long_hello_ends_the_connection)
{
	static uint8_t hello[5 + 16384] = { 0x16, 3, 1, 0x40, 0, 1, 1, 0, 0 };
	static const uint8_t next[5] = { 0x16, 3, 1, 0x40, 0 };
	CLEANUP(talk_stop) struct talk t;

	talk_start(&t, "echo", 256, 16384);
	for (unsigned i = 0; i < 4 && t.peer->conn; i++) {
		fake_send_all(t.fake, t.peer, hello, sizeof(hello), 4096);
		memcpy(hello, next, sizeof(next));
		memset(hello + 5, 0, 4);
	}
	assert_null(t.peer->conn);
	assert_int_equal(failed(&t), 1);
	t.kept = 0; /* it ends before it writes */
}

TEST(a_certificate_that_was_made_survives_a_reload)
{
	struct tls_options options = { .mode = TLS_USER };
	struct tls_certificate first;
	struct reason reason;
	CLEANUP(talk_stop) struct talk t;

	talk_start(&t, "echo", 256, 16384);
	first = *tls_stage_certificate(t.stage);
	assert_int_equal(tls_stage_prepare(t.stage, &options, UINT64_MAX, &reason), 0);
	assert_false(tls_stage_commit(t.stage));
	assert_memory_equal(&first, tls_stage_certificate(t.stage), sizeof(first));
	strcpy(options.certificate, "/nowhere/a.pem");
	assert_true(tls_stage_prepare(t.stage, &options, UINT64_MAX, &reason) < 0);
	assert_string_equal(reason.text, "tls-certificate: cannot read '/nowhere/a.pem': "
					 "No such file or directory; make it, or say "
					 "`tls-certificate = auto`");
	shake_hands(&t);
	check_echo(&t, 100);
}

static int fill_input(void **state)
{
	(void)state;
	for (unsigned i = 0; i < INPUT; i++)
		input[i] = (uint8_t)(i * 2654435761U >> 24);
	return 0;
}

ALL_TESTS_WITH(fill_input, NULL)
