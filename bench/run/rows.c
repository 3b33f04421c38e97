/* See rows.h. */
#include "rows.h"

#include <errno.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl.h"
#include "measure_file.h"
#include "report.h"

/* Prints `PATH: why` for an errno on stderr; returns CTL_USAGE. */
static int file_error(const char *path, int error)
{
	ctl_warn("%s: %s", path, strerror(error));
	return CTL_USAGE;
}

static bool is_at(const struct stat *st, const char *path)
{
	struct stat there;

	return stat(path, &there) == 0 && there.st_dev == st->st_dev && there.st_ino == st->st_ino;
}

/* Other runs may write to the file, too.  Half a row would make all of it unreadable.  One that has
 * written nothing may have removed it: then it is made again.  NULL with errno. */
static FILE *lock_file(FILE *to, const char *path)
{
	struct stat st;

	while (to && flock(fileno(to), LOCK_EX) == 0 && fstat(fileno(to), &st) == 0 &&
	       !is_at(&st, path))
		to = freopen(path, "ae", to);
	return to;
}

/* Empties the file; EINVAL: a pipe, which needs no truncation. */
static int write_begin(FILE *to, const char *path)
{
	return ftruncate(fileno(to), 0) < 0 && errno != EINVAL ? file_error(path, errno) : CTL_DONE;
}

static int write_end(FILE *to, const char *path)
{
	if (fflush(to) < 0)
		return file_error(path, errno);
	return ferror(to) ? file_error(path, EIO) : CTL_DONE;
}

/* Writes the rows with operations, one per line.  0 or -errno. */
static int write_rows(FILE *to, const struct measures *m)
{
	for (unsigned i = 0; i < m->count; i++) {
		json_t *row;

		if (m->rows[i]->count == 0 && !measure_unavailable(m->rows[i]))
			continue;
		row = measure_to_json(m->rows[i]);
		json_dumpf(row, to, JSON_COMPACT);
		putc('\n', to);
		json_decref(row);
	}
	if (fflush(to) < 0)
		return -errno;
	return ferror(to) ? -EIO : 0;
}

int rows_open(struct rows_file *ret, const char *path)
{
	*ret = (struct rows_file){ .path = path, .made = path && access(path, F_OK) < 0 };
	if (path && !(ret->file = fopen(path, "ae")))
		return file_error(path, errno);
	return CTL_DONE;
}

void rows_close(struct rows_file *f)
{
	struct stat st;

	if (!f->file)
		return;
	/* Under the lock: another run may be about to write to it, see lock_file().  One of those
	 * may have made the file again. */
	flock(fileno(f->file), LOCK_EX);
	if (f->made && fstat(fileno(f->file), &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0 &&
	    is_at(&st, f->path))
		unlink(f->path);
	fclose(f->file);
	f->file = NULL;
}

int rows_save(struct rows_file *f, const struct measures *m)
{
	const char *path = f->path;
	FILE *to = f->file = lock_file(f->file, path);
	int rc, file;
	off_t size;

	if (!to)
		return file_error(path, errno);
	file = fileno(to);
	size = lseek(file, 0, SEEK_END);
	rc = write_rows(to, m);
	if (rc < 0 && size >= 0) {
		__fpurge(to);
		if (ftruncate(file, size) < 0)
			rc = -errno;
	}
	flock(file, LOCK_UN);
	return rc < 0 ? file_error(path, -rc) : CTL_DONE;
}

int rows_load(const char *path, struct measures *m)
{
	FILE *from = strcmp(path, "-") ? fopen(path, "re") : stdin;
	unsigned line;
	int rc;

	if (!from)
		return file_error(path, errno);
	rc = measures_load(m, from, &line);
	if (from != stdin)
		fclose(from);
	if (rc == -EPROTONOSUPPORT) {
		ctl_warn("%s:%u: this row was saved by a newer nbbench: show it with that version",
			 path, line);
		return CTL_USAGE;
	}
	if (rc == -EINVAL) {
		ctl_warn("%s:%u: expected a row that `nbbench --save` wrote", path, line);
		return CTL_USAGE;
	}
	return rc < 0 ? file_error(path, -rc) : CTL_DONE;
}

int rows_report(struct rows_file *f, const struct result *result, const struct measures *m)
{
	FILE *to = f->file = lock_file(f->file, f->path);
	int rc = to ? write_begin(to, f->path) : file_error(f->path, errno);

	if (rc == CTL_DONE) {
		if (m)
			report_html(to, result, m);
		else
			report_svg(to, result);
		rc = write_end(to, f->path);
	}
	if (to)
		flock(fileno(to), LOCK_UN);
	return rc;
}

int rows_gate(enum gate gate)
{
	static const int results[GATES] = { [GATE_PASSED] = CTL_DONE,
					    [GATE_FAILED] = CTL_WORSE,
					    [GATE_UNDECIDED] = CTL_UNDECIDED,
					    [GATE_UNKNOWN] = CTL_INCOMPARABLE };

	return results[gate];
}
