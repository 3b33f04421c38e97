/* See history.h; `nbctl history`. */
#include "history.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "field.h"
#include "rows.h"
#include "util.h"

static const char ending[] = ".jsonl", unfinished[] = ".tmp";

/* Several nbctl may use the directory at the same time, without a lock.  Each writes its run into a
 * hidden file, whose name has the random name of the run and so belongs to it alone, and renames
 * the file when it is complete: a reader sees a whole run or none.  A run that is deleted as the
 * oldest while another process reads it stays readable until that process closes it, and one that
 * two processes delete is deleted once.  A file that was left by a killed process is recognised by
 * its age alone. */
enum { WRITING_MAX_S = 3600 }; /* writing a run takes less than a second */

/* ---- The directory ---- */

/* The directory of kept runs; false: neither variable names an absolute path (the XDG specification
 * says that a relative XDG_STATE_HOME is to be ignored), or it is too long. */
static bool directory_path(char *path, size_t bytes)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int length = -1;

	if (state && *state == '/')
		length = snprintf(path, bytes, "%s/nbserved", state);
	else if (home && *home == '/')
		length = snprintf(path, bytes, "%s/.local/state/nbserved", home);
	return length > 0 && (size_t)length < bytes;
}

/* Makes the directory and those above it. */
static int make_directory(char *path)
{
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path,
		      0700); /* it may exist; another failure makes the last mkdir() fail, too */
		*slash = '/';
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static bool ends_with(const char *name, const char *end)
{
	size_t bytes = strlen(name);

	return bytes >= strlen(end) && !strcmp(name + bytes - strlen(end), end);
}

static int is_run(const struct dirent *entry)
{
	return *entry->d_name != '.' && ends_with(entry->d_name, ending);
}

static int is_unfinished(const struct dirent *entry)
{
	return *entry->d_name == '.' && ends_with(entry->d_name, unfinished);
}

/* The names of all runs, the oldest first: names begin with the time.  They are
 * freed by free_names(). */
static int list_names(const char *directory, struct dirent ***ret)
{
	return scandir(directory, ret, is_run, alphasort);
}

static void free_names(struct dirent **names, int count)
{
	for (int i = 0; i < count; i++)
		free(names[i]);
	if (count >= 0)
		free(names);
}

/* ---- Keeping ---- */

static void drop_oldest(const char *directory)
{
	struct dirent **names = NULL;
	int count = list_names(directory, &names);
	char path[PATH_MAX];

	for (int i = 0; i + HISTORY_MAX < count; i++)
		if (snprintf(path, sizeof(path), "%s/%s", directory, names[i]->d_name) <
		    (int)sizeof(path))
			unlink(path);
	free_names(names, count);
}

/* Removes the files of processes that were killed while they wrote. */
static void drop_unfinished(const char *directory)
{
	struct dirent **names = NULL;
	int count = scandir(directory, &names, is_unfinished, NULL);
	char path[PATH_MAX];
	struct stat st;

	for (int i = 0; i < count; i++)
		if (snprintf(path, sizeof(path), "%s/%s", directory, names[i]->d_name) <
			    (int)sizeof(path) &&
		    lstat(path, &st) == 0 && st.st_mtime < time(NULL) - WRITING_MAX_S)
			unlink(path);
	free_names(names, count);
}

/* The run's name, or NULL: no row has operations. */
static const char *run_of(const struct measures *m)
{
	for (unsigned i = 0; i < m->count; i++)
		if (m->rows[i]->count && *m->rows[i]->visit.run)
			return m->rows[i]->visit.run;
	return NULL;
}

static int write_rows(const char *path, const struct measures *m)
{
	FILE *to = fopen(path, "wxe");
	int rc;

	if (!to)
		return -errno;
	rc = rows_write(to, m);
	if (fclose(to) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

/* Writes the run.  The name begins with the date, so that names sort by time. */
static int keep(const char *directory, const char *run, const struct measures *m)
{
	char path[PATH_MAX], kept[PATH_MAX], date[32];
	struct timespec now;
	struct tm utc;
	int rc;

	clock_gettime(CLOCK_REALTIME, &now);
	strftime(date, sizeof(date), "%Y%m%dT%H%M%S", gmtime_r(&now.tv_sec, &utc));
	if (snprintf(path, sizeof(path), "%s/.%.16s%s", directory, run, unfinished) >=
		    (int)sizeof(path) ||
	    snprintf(kept, sizeof(kept), "%s/%s.%03ld-%.16s%s", directory, date,
		     now.tv_nsec / (long)NS_PER_MS, run, ending) >= (int)sizeof(kept))
		return -ENAMETOOLONG;
	rc = write_rows(path, m);
	if (rc == 0 && rename(path, kept) < 0)
		rc = -errno;
	if (rc < 0)
		unlink(path);
	return rc;
}

void history_keep(const struct measures *m)
{
	const char *run = run_of(m);
	char directory[PATH_MAX - 80];
	int rc;

	if (!run || !directory_path(directory, sizeof(directory)))
		return;
	rc = make_directory(directory);
	if (rc == 0)
		rc = keep(directory, run, m);
	if (rc < 0)
		ctl_warn("%s: %s: this run is not kept for `nbctl history`", directory,
			 strerror(-rc));
	else
		drop_oldest(directory);
	drop_unfinished(directory);
}

/* ---- Reading ---- */

FILE *history_open(const char *name)
{
	char directory[PATH_MAX - 80], path[PATH_MAX];
	struct dirent **names = NULL;
	FILE *from = NULL;
	int count = -1;

	errno = ENOENT;
	if (!directory_path(directory, sizeof(directory)))
		return NULL;
	if (!strcmp(name, "last")) {
		count = list_names(directory, &names);
		name = count > 0 ? names[count - 1]->d_name : "";
		if (count >= 0)
			errno = ENOENT;
	}
	if (*name && snprintf(path, sizeof(path), "%s/%s", directory, name) < (int)sizeof(path))
		from = fopen(path, "re");
	free_names(names, count);
	return from;
}

/* ---- The command ---- */

/* { "name", "date", "rows", "label", "invocation": [...] } of a run, by its first row; NULL: the
 * file has no row, or another process has just deleted it. */
static json_t *describe(const char *name)
{
	json_t *row = NULL, *run;
	unsigned rows = 0;
	char *line = NULL;
	size_t room = 0;
	FILE *from = history_open(name);

	while (from && getline(&line, &room, from) >= 0)
		if (rows++ == 0)
			row = json_loads(line, 0, NULL);
	if (from)
		fclose(from);
	free(line);
	run = row ? json_pack("{s:s, s:s, s:i, s:s, s:O*}", "name", name, "date",
			      field_text(row, "conditions.date"), "rows", (int)rows, "label",
			      field_text(row, "label"), "invocation",
			      field_get(row, "conditions.invocation"))
		  : NULL;
	json_decref(row);
	return run;
}

/* An exit code. */
static int describe_all(json_t *runs)
{
	char directory[PATH_MAX - 80];
	struct dirent **names = NULL;
	json_t *run;
	int count;

	if (!directory_path(directory, sizeof(directory)))
		return CTL_DONE;
	count = list_names(directory, &names);
	if (count < 0 && errno != ENOENT)
		return rows_file_error(directory, errno);
	for (int i = 0; i < count; i++)
		if ((run = describe(names[i]->d_name)))
			json_array_append_new(runs, run);
	free_names(names, count);
	return CTL_DONE;
}

static void render(struct output *out, const json_t *runs)
{
	static const struct column columns[] = {
		{ .title = "run", .left = true },
		{ .title = "rows" },
		{ .title = "command", .left = true },
	};
	struct table *t = table_new(columns, ARRAY_SIZE(columns));
	json_t *run;
	size_t i;

	json_array_foreach(runs, i, run) {
		char *words = field_show_words(field_get(run, "invocation"));

		table_cell(t, STYLE_BOLD, "%s", field_text(run, "name"));
		table_cell(t, STYLE_PLAIN, "%u", (unsigned)field_uint(run, "rows"));
		table_text(t, words);
		free(words);
	}
	if (!table_finish(t, out, 0))
		output_text(out, STYLE_PLAIN, "No run of `nbctl compare` has been kept.\n");
}

static int run_history(struct ctl *ctl)
{
	json_t *runs = json_array(), *document = json_pack("{s:o}", "runs", runs);
	int rc = describe_all(runs);

	if (rc == CTL_DONE && ctl->out.json)
		output_json(&ctl->out, document, false);
	else if (rc == CTL_DONE)
		render(&ctl->out, runs);
	json_decref(document);
	return rc;
}

const struct command command_history = {
	.name = "history",
	.here = true,
	.arguments = "",
	.summary = "the runs of compare that were kept",
	.details =
		"Each run of `nbctl compare` that measured something is kept in\n"
		"$XDG_STATE_HOME/nbserved, or ~/.local/state/nbserved: the newest 200.  `nbctl report`,\n"
		"`compare --load` and `--against` take their names, and `last` for the newest.\n",
	.example = "nbctl history\n"
		   "nbctl report last >report.html",
	.run = run_history,
};
