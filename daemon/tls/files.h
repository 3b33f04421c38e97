/* The files that keys of a listener with TLS name, which have secrets: read whole.
 * Main thread, or of a process that only checks. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "tls.h"

enum { TLS_CHAIN_MAX = 16 /* certificates of a file */ };

struct tls_file {
	const char *key, *path; /* the configuration's key, and its value */
	char *text;             /* with a NUL behind its bytes */
	size_t bytes;
};

/* Reads the file that `key` names, until end_ns or for 100 ms, whichever is later
 * (host/detached.h): where one file takes all of the time, the others are still tried.  secret:
 * only its owner and group may be able to read it.  advice: how to get one, `; ...`, if there is
 * none; key and advice are constants.  0, or -errno with a reason that begins with the key and
 * names the file. */
int tls_file_read(struct tls_file *f, const char *key, const char *path, bool secret,
		  const char *advice, uint64_t end_ns, struct reason *reason);
/* Wipes what was read, if anything was. */
void tls_file_wipe(struct tls_file *f);

/* The certificate's file and the key's; of the same file they are the same text. */
struct tls_files {
	struct tls_file certificate, key;
};

int tls_files_read(struct tls_files *f, const struct tls_options *options, uint64_t end_ns,
		   struct reason *reason);
void tls_files_wipe(struct tls_files *f);
