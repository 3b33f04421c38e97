/* TLS of a listener, as the server sees it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "reason.h"
#include "service.h"

enum { TLS_PATH_MAX = 256, TLS_NAME_MAX = 256, TLS_DRIVER_MAX = 64 };

/* The part that seals and opens the records: the library in user space (TLS_USER); the kernel seals
 * (KTLS_TX), or seals and opens them (KTLS). */
enum tls_mode { TLS_NONE, TLS_USER, TLS_KTLS_TX, TLS_KTLS };
extern const char *const tls_modes[];   /* by enum tls_mode, NULL-terminated */
extern const char *const tls_ciphers[]; /* NULL-terminated */

/* Time for the files of all listeners, whose file systems may hang, at a start or a reload. */
#define TLS_READ_NS ((uint64_t)5 * NS_PER_S)

/* Keys of a listener's section. */
struct tls_options {
	unsigned mode;   /* enum tls_mode */
	unsigned cipher; /* index in tls_ciphers */
	/* PEM files.  "": a certificate is made at the start; the key is
	 * in the certificate's file. */
	char certificate[TLS_PATH_MAX], key[TLS_PATH_MAX];
	/* keys shared with clients, in place of a certificate; "": none */
	char psk_file[TLS_PATH_MAX];
};

/* The certificate in use, or the keys in its place. */
struct tls_certificate {
	/* > 0: the number of shared keys; then the other members are not set */
	unsigned shared_keys;
	char subject[TLS_NAME_MAX], issuer[TLS_NAME_MAX]; /* printable ASCII */
	int64_t begin_s, end_s;   /* seconds since 1970 in which it is valid */
	unsigned char digest[32]; /* SHA-256 */
};

static inline bool tls_in_kernel(unsigned mode)
{
	return mode >= TLS_KTLS_TX;
}

/* Tries the kernel's TLS of that mode and cipher on a connection to this process.  0, or -errno
 * with the reason.  Any thread. */
int tls_kernel_probe(unsigned mode, unsigned cipher, struct reason *reason);
/* The kernel's driver for that cipher, `generic-gcm-aesni`; "": not known, for instance
 * before the first session. */
void tls_kernel_driver(unsigned cipher, char text[static TLS_DRIVER_MAX]);

/* Why this build lacks TLS; NULL: it has it. */
const char *tls_absent(void);
/* `OpenSSL 3.0.19`; static. */
const char *tls_library_name(void);

/* Reads the files that the options name, as a start would, and looks whether the certificate is
 * valid today.  0, or -errno with a reason that begins with the key that is wrong, if one is.  Not
 * for the daemon's main thread: reading may take long. */
int tls_check(const struct tls_options *options, struct reason *reason);

struct tls_stage;
/* Loads the certificate, whose files are waited for until end_ns (CLOCK_MONOTONIC), and makes the
 * stage of a listener with that number of workers.  NULL with the reason. */
struct tls_stage *tls_stage_new(const struct service *service, const struct tls_options *options,
				unsigned workers, uint64_t end_ns, struct reason *reason);
/* To be called when the listener's workers have ended. */
void tls_stage_free(struct tls_stage *stage);

/* The service that the listener's workers run; valid as long as the stage. */
const struct service *tls_stage_service(const struct tls_stage *stage);
/* Features that the workers' engine must do without: a mask of enum engine_feature. */
uint64_t tls_stage_features_off(const struct tls_stage *stage);

/* A reload: prepare() reads the certificate again, by end_ns, and -errno with the reason changes
 * nothing. Connections that begin after commit() use the new certificate; undo() forgets it.
 * Without prepare() both do nothing. */
int tls_stage_prepare(struct tls_stage *stage, const struct tls_options *options, uint64_t end_ns,
		      struct reason *reason);
/* True: the certificate has changed, or keys were read again. */
bool tls_stage_commit(struct tls_stage *stage);
void tls_stage_undo(struct tls_stage *stage);

const struct tls_certificate *tls_stage_certificate(const struct tls_stage *stage);
/* Whole days until the certificate ends, negative when it has ended. */
int64_t tls_days_left(const struct tls_certificate *certificate);
