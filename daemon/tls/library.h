/* What OpenSSL does for the stage.  Its headers appear in openssl.c and nvme_key.c alone.
 *
 * A context is made on the main thread and used by all workers of a listener; sessions keep what
 * they need of it, so that it may be freed before them.  A session belongs to one worker. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "tls.h"

enum {
	TLS_RECORD_MAX = 16 * 1024, /* bytes of the contents of a record */
};

/* Results of a step that are not a number of bytes. */
enum tls_result {
	TLS_WANT_INPUT = -1,  /* all input was taken: more is needed */
	TLS_WANT_MEMORY = -2, /* the wire took not all output: repeat the call when it can */
	TLS_CONTROL = -3,     /* a record without data was handled; there may be more input */
	TLS_CLOSED = -4,      /* the peer's close_notify */
	TLS_FAILED = -5,      /* the session is over; an alert may have been written */
	TLS_ASKED = -6,       /* as TLS_CONTROL, and the session has to answer before any data */
};

/* The transport of a session; both functions never block. */
struct tls_wire {
	/* Takes at most `bytes` bytes of the received ones; 0: there are none now. */
	size_t (*receive)(void *context, void *to, size_t bytes);
	/* Appends to the output; how many of `bytes` bytes, 0: there is no memory. */
	size_t (*send)(void *context, const void *data, size_t bytes);
};

/* The key and the implicit nonce that seal the records of one direction. */
struct tls_keys {
	uint8_t key[32], iv[12]; /* as many bytes of the key as the cipher has */
};

struct tls_context;
struct tls_session;

struct tls_library {
	const char *absent; /* why this build has no such library, and nothing else is set; NULL: it
			       has one */
	const char *(*name)(void);
	/* end_ns: see tls_stage_new().  *ret_certificate is all 0 before.  NULL with a reason that
	 * begins with the key that is wrong, if one is. */
	struct tls_context *(*context)(const struct tls_options *options, uint64_t end_ns,
				       struct tls_certificate *ret_certificate,
				       struct reason *reason);
	void (*forget)(struct tls_context *context); /* NULL is no error */
	/* NULL: no memory. */
	struct tls_session *(*session)(struct tls_context *context, const struct tls_wire *wire,
				       void *wire_context);
	int (*handshake)(struct tls_session *s); /* 0: done, or enum tls_result */
	/* Bytes > 0, or enum tls_result. */
	int (*read)(struct tls_session *s, void *to, size_t bytes);
	/* Bytes > 0 of at most TLS_RECORD_MAX, which are one record; or enum tls_result, of which
	 * TLS_WANT_INPUT says that the client has sent a part of a message that comes first.  The
	 * next call begins with the same bytes. */
	int (*write)(struct tls_session *s, const void *data, size_t bytes);
	/* The keys of the server's records (`sends`), or of the client's, once the handshake is
	 * done and before any record.  May be called once for each direction, as the session may
	 * wipe the secrets then.  Only for a context whose mode is tls_in_kernel().  False: the
	 * session has no keys. */
	bool (*keys)(struct tls_session *s, bool sends, struct tls_keys *ret_keys);
	/* The identity of an NVMe host whose key the client has proved, once the handshake is done;
	 * before, the one that it has named last.  "": none; NULL: the context has no shared keys.
	 * Visible ASCII and spaces. */
	const char *(*identity)(const struct tls_session *s);
	/* Writes close_notify.  0, or enum tls_result. */
	int (*close)(struct tls_session *s);
	/* The reason why the session failed, a static text. */
	const char *(*why)(const struct tls_session *s);
	void (*free)(struct tls_session *s); /* wipes its secrets; NULL is no error */
};

extern const struct tls_library tls_library; /* openssl.c, or no_openssl.c */
