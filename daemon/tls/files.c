/* Files with certificates and keys.  See files.h. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "detached.h"
#include "open_file.h"
#include "sandbox.h"
#include "util.h"

#define SERVICE_USER "nbserved" /* of the unit */

enum { FILE_MAX = 256 * 1024 /* bytes */, FILE_READ_MS = 100 /* for each, at least */ };

/* One file that is read on a thread of its own, as its file system may hang. */
struct reading {
	struct detached_call detached;
	struct tls_file file;
	char *path; /* file.path */
	bool secret;
	const char *advice;
	struct reason reason;
	int result;
};

void tls_file_wipe(struct tls_file *f)
{
	if (f->text)
		explicit_bzero(f->text, f->bytes);
	free(f->text);
	f->text = NULL;
}

/* Files may belong to root or to the daemon's user.  Where root checks the configuration, that user
 * is the account nbserved. */
static bool is_trusted(uid_t owner)
{
	struct passwd service, *found = NULL;
	uid_t user = geteuid();
	char names[1024];

	if (owner == 0 || owner == user)
		return true;
	if (user == 0)
		getpwnam_r(SERVICE_USER, &service, names, sizeof(names), &found);
	return found && owner == found->pw_uid;
}

/* Refuses files whose owner or mode lets other users read a secret, or write any of the files: they
 * could then act as this server. */
static int check_access(struct tls_file *f, int fd, bool secret, struct reason *reason)
{
	mode_t open_to = S_IWGRP | S_IWOTH | (secret ? S_IROTH : 0);
	struct stat st;

	if (fstat(fd, &st) < 0)
		return reason_set(reason, -errno, "%s: '%s': %s", f->key, f->path, strerror(errno));
	if (!is_trusted(st.st_uid))
		return reason_set(reason, -EPERM,
				  "%s: '%s' belongs to uid %u; expected root or the daemon's user "
				  "as its owner: `chown root %s`",
				  f->key, f->path, (unsigned)st.st_uid, f->path);
	if (st.st_mode & open_to)
		return reason_set(reason, -EPERM, "%s: '%s' may be %s by others; `chmod %s %s`",
				  f->key, f->path,
				  st.st_mode & (S_IWGRP | S_IWOTH) ? "written" : "read",
				  secret ? "g-w,o-rwx" : "go-w", f->path);
	if (st.st_size > FILE_MAX)
		return reason_set(reason, -EFBIG,
				  "%s: '%s' is larger than %d KiB; expected a text file", f->key,
				  f->path, FILE_MAX / 1024);
	f->bytes = (size_t)st.st_size;
	return 0;
}

static int read_all(struct tls_file *f, int fd)
{
	size_t used = 0;

	f->text = malloc(f->bytes + 1);
	if (!f->text)
		return -ENOMEM;
	while (used < f->bytes) {
		ssize_t n = read(fd, f->text + used, f->bytes - used);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		used += (size_t)MAX(n, 0);
	}
	f->bytes = used;
	f->text[used] = '\0';
	return 0;
}

static const char *open_advice(const char *path, const char *missing, int error)
{
	const char *sandbox = sandbox_advice(path, error);

	if (*sandbox)
		return sandbox;
	switch (error) {
	case ENOENT:
		return missing;
	case EACCES:
		return "; the daemon's user or group must be able to read it";
	default:
		return "";
	}
}

static int reading_do(struct reading *r)
{
	struct tls_file *f = &r->file;
	const char *why;
	int fd = open_file(f->path, O_RDONLY, false, &why), rc;

	if (fd < 0)
		return reason_set(&r->reason, fd, "%s: cannot read '%s': %s%s", f->key, f->path,
				  why, open_advice(f->path, r->advice, -fd));
	rc = check_access(f, fd, r->secret, &r->reason);
	if (rc == 0) {
		rc = read_all(f, fd);
		if (rc < 0)
			reason_set(&r->reason, rc, "%s: cannot read '%s': %s", f->key, f->path,
				   strerror(-rc));
	}
	close(fd);
	if (rc < 0)
		tls_file_wipe(f);
	return rc;
}

static void reading_run(struct detached_call *detached)
{
	struct reading *r = container_of(detached, struct reading, detached);

	r->result = reading_do(r);
}

static void reading_free(struct reading *r)
{
	if (r)
		free(r->path);
	free(r);
}

static void reading_left(struct detached_call *detached)
{
	struct reading *r = container_of(detached, struct reading, detached);

	tls_file_wipe(&r->file);
	reading_free(r);
}

static struct reading *reading_new(const char *key, const char *path, bool secret,
				   const char *advice)
{
	struct reading *r = calloc(1, sizeof(*r));

	if (!r || !(r->path = strdup(path))) {
		reading_free(r);
		return NULL;
	}
	r->detached.run = reading_run;
	r->detached.left = reading_left;
	r->file = (struct tls_file){ .key = key, .path = r->path };
	r->secret = secret;
	r->advice = advice;
	return r;
}

int tls_file_read(struct tls_file *f, const char *key, const char *path, bool secret,
		  const char *advice, uint64_t end_ns, struct reason *reason)
{
	struct reading *r = reading_new(key, path, secret, advice);
	int rc = r ? detached_start(&r->detached) : -ENOMEM;

	*f = (struct tls_file){ .key = key, .path = path };
	if (rc < 0) {
		reading_free(r);
		return reason_set(reason, rc, "%s: cannot read '%s': %s", key, path, strerror(-rc));
	}
	end_ns = MAX(end_ns, clock_ns() + FILE_READ_MS * (uint64_t)NS_PER_MS);
	if (!detached_await(&r->detached, end_ns))
		return reason_set(
			reason, -ETIMEDOUT,
			"%s: cannot read '%s': no answer within the %d s that all files of "
			"certificates and keys have; look at the file system under it",
			key, path, (int)(TLS_READ_NS / NS_PER_S));
	rc = r->result;
	if (rc < 0)
		*reason = r->reason;
	f->text = r->file.text;
	f->bytes = r->file.bytes;
	reading_free(r);
	return rc;
}

void tls_files_wipe(struct tls_files *f)
{
	if (f->key.text == f->certificate.text)
		f->key.text = NULL;
	tls_file_wipe(&f->certificate);
	tls_file_wipe(&f->key);
}

int tls_files_read(struct tls_files *f, const struct tls_options *options, uint64_t end_ns,
		   struct reason *reason)
{
	static const char advice[] = "; make it, or say `tls-certificate = auto`";
	bool same = options->key[0] == '\0';
	int rc = tls_file_read(&f->certificate, "tls-certificate", options->certificate, same,
			       advice, end_ns, reason);

	if (rc < 0)
		return rc;
	f->key = f->certificate;
	if (same)
		return 0;
	rc = tls_file_read(&f->key, "tls-key", options->key, true, advice, end_ns, reason);
	if (rc < 0)
		tls_file_wipe(&f->certificate);
	return rc;
}
