/* See stack_files.h. */
#include "stack_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report.h"
#include "rows.h"
#include "stack_tree.h"
#include "text.h"
#include "util.h"

int stack_files_open(const char *folder)
{
	struct stat st;

	if (mkdir(folder, 0777) < 0 && errno != EEXIST)
		return rows_file_error(folder, errno);
	if (stat(folder, &st) < 0)
		return rows_file_error(folder, errno);
	return S_ISDIR(st.st_mode) ? CTL_DONE : rows_file_error(folder, ENOTDIR);
}

/* ---- Names ---- */

enum { NAME_MAX_BYTES = 200 };

static const char *const endings[] = { "", "-2", "-3", "-4", "-5", "-6", "-7", "-8" };

static void clean(char *name)
{
	static const char may[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				  "._=,+-";

	for (char *c = name; *c; c++)
		if (!strchr(may, *c) || (c == name && *c == '.'))
			*c = '-';
}

/* The name of the row's files, "echo-epoll" or with a label "c=10-echo-epoll", to be freed.  NULL:
 * an earlier row of the same listener has the same samples, or no name is left. */
static char *name_of(const struct measure *row, json_t *seen)
{
	char *name = NULL, *key = text_new("%s\n%s\n%s\n%s", row->label, row->listener,
					   row->visit.setup, row->visit.build);
	for (unsigned i = 0; i < ARRAY_SIZE(endings) && !json_object_get(seen, key); i++) {
		name = text_new("%.*s%s%.*s%s", NAME_MAX_BYTES / 2, row->label,
				*row->label ? "-" : "", NAME_MAX_BYTES / 2, row->listener,
				endings[i]);
		clean(name);
		if (!json_object_get(seen, name)) {
			json_object_set_new_nocheck(seen, name, json_true());
			break;
		}
		free(name);
		name = NULL;
	}
	json_object_set_new_nocheck(seen, key, json_true());
	free(key);
	return name;
}

/* ---- Files ---- */

static void write_folded(FILE *to, const struct stack_tree *tree, const struct measure *row)
{
	(void)row;
	stack_tree_fold(tree, to);
}

static void write_flame(FILE *to, const struct stack_tree *tree, const struct measure *row)
{
	char *title = text_new("%s%s%s", row->listener, *row->label ? ": " : "", row->label);
	report_flame(to, tree, title, report_chart_style);
	free(title);
}

static int save(const char *folder, const struct measure *row, const char *name,
		const struct stack_tree *tree)
{
	static const struct {
		const char *suffix;
		void (*write)(FILE *to, const struct stack_tree *tree, const struct measure *row);
	} files[] = { { "folded", write_folded }, { "svg", write_flame } };
	int rc = CTL_DONE;

	for (unsigned i = 0; i < ARRAY_SIZE(files) && rc == CTL_DONE; i++) {
		char *path = text_new("%s/%s.%s", folder, name, files[i].suffix);
		FILE *to = fopen(path, "we");
		int bad;

		if (to) {
			files[i].write(to, tree, row);
			bad = ferror(to);
			bad |= fclose(to);
		}
		if (!to || bad)
			rc = rows_file_error(path, errno);
		free(path);
	}
	return rc;
}

int stack_files_save(const char *folder, const struct measures *m, struct output *out)
{
	json_t *seen = json_object();
	unsigned saved = 0;
	int rc = CTL_DONE;

	for (unsigned i = 0; i < m->count && rc == CTL_DONE; i++) {
		struct stack_tree tree;
		char *name;

		stack_tree_init(&tree);
		stack_tree_add_row(&tree, m->rows[i]);
		name = stack_tree_is_empty(&tree) ? NULL : name_of(m->rows[i], seen);
		if (name) {
			rc = save(folder, m->rows[i], name, &tree);
			saved++;
		}
		free(name);
		stack_tree_free(&tree);
	}
	json_decref(seen);
	if (rc == CTL_DONE && saved)
		output_wrapped(out, STYLE_DIM, 2,
			       "Folded stacks and flame graphs of %u listener%s are in %s.", saved,
			       plural(saved), folder);
	else if (rc == CTL_DONE)
		ctl_warn("--stacks: no row has samples, which --layers takes");
	return rc == CTL_DONE && !saved ? CTL_NOTHING : rc;
}
