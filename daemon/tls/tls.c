/* Stages of listeners, and their certificates.  Main thread.  See tls.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "stage.h"

enum { DAY_S = 24 * 3600 };

const char *tls_absent(void)
{
	return tls_library.absent;
}

const char *tls_library_name(void)
{
	return tls_absent() ? "none" : tls_library.name();
}

/* Is the certificate made here, as no file is configured? */
static bool is_made(const struct tls_options *options)
{
	return !options->certificate[0] && !options->psk_file[0];
}

/* Forbids core dumps: the memory of a process with TLS contains keys.  Not by RLIMIT_CORE, which
 * the unit's filter of system calls forbids to set. */
static void forbid_core_memory(void)
{
	static bool done;
	int fd;

	if (done)
		return;
	done = true;
	fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		log_warning("tls: a core file may contain keys: /proc/self/coredump_filter: %s",
			    strerror(errno));
	if (fd >= 0)
		close(fd);
}

static struct tls_context *context_new(const struct tls_options *options, uint64_t end_ns,
				       struct tls_certificate *ret_certificate,
				       struct reason *reason)
{
	forbid_core_memory();
	*ret_certificate = (struct tls_certificate){ 0 };
	return tls_library.context(options, end_ns, ret_certificate, reason);
}

struct tls_stage *tls_stage_new(const struct service *service, const struct tls_options *options,
				unsigned workers, uint64_t end_ns, struct reason *reason)
{
	const char *absent = tls_absent();
	struct tls_stage *s;

	if (absent) {
		reason_set(reason, -ENOTSUP, "%s", absent);
		return NULL;
	}
	if (tls_in_kernel(options->mode) &&
	    tls_kernel_probe(options->mode, options->cipher, reason) < 0)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s || !(s->workers = aligned_alloc(CACHE_LINE, workers * sizeof(*s->workers)))) {
		free(s);
		reason_set(reason, -ENOMEM, "no memory");
		return NULL;
	}
	memset(s->workers, 0, workers * sizeof(*s->workers));
	pthread_mutex_init(&s->lock, NULL);
	s->inner = service;
	s->kernel = kernel_directions(options->mode);
	s->cipher = options->cipher;
	s->made = is_made(options);
	s->service = *service;
	stage_wrap(s);
	s->context = context_new(options, end_ns, &s->certificate, reason);
	if (!s->context) {
		tls_stage_free(s);
		return NULL;
	}
	return s;
}

void tls_stage_free(struct tls_stage *s)
{
	if (!s)
		return;
	tls_stage_undo(s);
	if (s->context)
		tls_library.forget(s->context);
	pthread_mutex_destroy(&s->lock);
	free(s->workers);
	free(s);
}

const struct service *tls_stage_service(const struct tls_stage *s)
{
	return &s->service;
}

/* Sockets with the kernel's TLS have no MSG_WAITALL, which silent sends need, and a low-water mark
 * would count whole records, not bytes. */
uint64_t tls_stage_features_off(const struct tls_stage *s)
{
	return s->kernel ? FEATURE_BIT(silent_send) | FEATURE_BIT(rcvlowat) : 0;
}

int tls_stage_prepare(struct tls_stage *s, const struct tls_options *options, uint64_t end_ns,
		      struct reason *reason)
{
	tls_stage_undo(s);
	if (is_made(options) && s->made) /* keep the one that was made at the start */
		return 0;
	s->next_made = is_made(options);
	s->next = context_new(options, end_ns, &s->next_certificate, reason);
	return s->next ? 0 : -EINVAL;
}

bool tls_stage_commit(struct tls_stage *s)
{
	struct tls_context *old = s->context;
	bool changed;

	if (!s->next)
		return false;
	pthread_mutex_lock(&s->lock);
	s->context = s->next;
	pthread_mutex_unlock(&s->lock);
	s->next = NULL;
	tls_library.forget(old);
	changed = s->next_certificate.shared_keys ||
		  memcmp(s->certificate.digest, s->next_certificate.digest,
			 sizeof(s->certificate.digest)) != 0;
	s->made = s->next_made;
	s->certificate = s->next_certificate;
	return changed;
}

void tls_stage_undo(struct tls_stage *s)
{
	if (s->next)
		tls_library.forget(s->next);
	s->next = NULL;
}

const struct tls_certificate *tls_stage_certificate(const struct tls_stage *s)
{
	return &s->certificate;
}

/* ---- Dates ---- */

int64_t tls_days_left(const struct tls_certificate *certificate)
{
	int64_t left_s = certificate->end_s - (int64_t)time(NULL);

	return left_s < 0 ? -1 - (-left_s / DAY_S) : left_s / DAY_S;
}

int tls_check(const struct tls_options *options, struct reason *reason)
{
	struct tls_certificate certificate;
	struct tls_context *context;
	bool has_begun;

	if (tls_absent() || is_made(options))
		return 0;
	context = context_new(options, clock_ns() + TLS_READ_NS, &certificate, reason);
	if (!context)
		return -EINVAL;
	tls_library.forget(context);
	has_begun = certificate.begin_s <= (int64_t)time(NULL);
	if (certificate.shared_keys || (has_begun && tls_days_left(&certificate) >= 0))
		return 0;
	return reason_set(reason, -EINVAL, "tls-certificate: '%s': the certificate of %s %s",
			  options->certificate, certificate.subject,
			  has_begun ? "has expired" : "is not valid yet");
}
