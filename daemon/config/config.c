/* Reads the configuration: files in order, their sections and keys into structs.  Main thread only.
 *
 * A file may set a key once and open a section once; a later file (a drop-in) adds to the sections
 * of earlier ones and replaces their values, whole lists at a time.  Reading continues after
 * errors: values of invalid sections are still validated, in scratch. */
#include "config.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config_keys.h"
#include "config_report.h"
#include "ini.h"
#include "open_file.h"
#include "runtime.h"
#include "suggest.h"
#include "text.h"
#include "util.h"

enum { CONFIG_BYTES_MAX = 1 << 20 }; /* bytes of one file */

struct loader {
	struct config_report report;
	struct config *config; /* report.config */
	const char *file;      /* being read */
	/* Destination of values; NULL: unknown section, values are ignored. */
	void *section;
	enum config_section kind;
	char section_text[CONFIG_SECTION_TEXT_MAX];
	union {
		struct config_head head;
		struct server_config server;
		struct listener_config listener;
		struct export_config export;
	} scratch;
};

static void set_defaults(enum config_section kind, void *section)
{
	const struct config_key *key;

	for (unsigned i = 0; (key = config_key_at(i)); i++) {
		int err = 0;

		if (key->section == kind && key->preset)
			err = key->type->parse(key, key->preset, (struct config_origin){ 0 },
					       section);
		assert(!err);
		(void)err;
	}
}

static struct config_origin here(const struct loader *l, unsigned line)
{
	return (struct config_origin){ .file = l->file, .line = line };
}

/* ---- Sections ---- */

static void init_section(enum config_section kind, struct config_head *section, const char *name,
			 struct config_origin at)
{
	memset(section, 0, config_kinds[kind].size);
	section->section = at;
	snprintf(section->name, sizeof(section->name), "%s", name);
	set_defaults(kind, section);
	if (kind == CONFIG_LISTENER)
		config_init_values((struct listener_config *)section);
}

/* The array has room for all sections from the start, so that pointers into it stay valid. */
static struct config_head *add_section(struct loader *l, const char *name, unsigned line)
{
	const struct config_kind *kind = &config_kinds[l->kind];
	unsigned *count = (unsigned *)((char *)l->config + kind->count);
	struct config_head *section;

	if (*count == kind->max) {
		config_report(&l->report, here(l, line), l->section_text, NULL,
			      "expected at most %u %s, got one more", kind->max, kind->plural);
		return NULL;
	}
	++*count;
	section = config_section_at(l->config, l->kind, *count - 1);
	init_section(l->kind, section, name, here(l, line));
	return section;
}

/* True: the section is open for the first time in this file. */
static bool check_header(struct loader *l, struct config_head *section, unsigned line)
{
	if (section->header.file == l->file) {
		config_report(&l->report, here(l, line), l->section_text, NULL,
			      "duplicate section, first at line %u", section->header.line);
		return false;
	}
	section->header = here(l, line);
	return true;
}

static void open_section(struct loader *l, enum config_section kind, unsigned line,
			 const char *name)
{
	struct config_head *section = config_section_find(l->config, kind, name);

	l->kind = kind;
	l->section = &l->scratch;
	init_section(kind, &l->scratch.head, "", here(l, line));
	snprintf(l->section_text, sizeof(l->section_text), "%s%s%s", config_kinds[kind].name,
		 *name ? " " : "", name);
	if (*name && !config_name_valid(name)) {
		config_report(&l->report, here(l, line), NULL, NULL,
			      "expected %s with a name of A-Z, a-z, 0-9, '_', '.', '-', "
			      "up to %u bytes, got '%s'",
			      config_kinds[kind].heading, CONFIG_NAME_MAX - 1, name);
		return;
	}
	if (!section)
		section = add_section(l, name, line);
	if (section && check_header(l, section, line))
		l->section = section;
}

static void unknown_section(struct loader *l, unsigned line, const char *text, const char *kind)
{
	struct suggestion s = { .text = kind };

	for (unsigned i = 0; i < CONFIG_SECTION_COUNT; i++)
		suggest_try(&s, config_kinds[i].name);
	l->section = NULL;
	config_report(&l->report, here(l, line), NULL, NULL, "expected %s, %s or %s, got '[%s]'%s",
		      config_kinds[CONFIG_SERVER].heading, config_kinds[CONFIG_LISTENER].heading,
		      config_kinds[CONFIG_EXPORT].heading, text, suggest_hint(&s));
}

static void on_section(void *context, unsigned line, const char *text)
{
	struct loader *l = context;
	size_t length = strcspn(text, " \t");
	const char *name = text + length + strspn(text + length, " \t");
	char kind[INI_LINE_MAX];

	snprintf(kind, sizeof(kind), "%.*s", (int)length, text);
	for (unsigned i = 0; i < CONFIG_SECTION_COUNT; i++)
		if (!strcmp(kind, config_kinds[i].name) && !*name == !config_kinds[i].plural) {
			open_section(l, i, line, name);
			return;
		}
	unknown_section(l, line, text, kind);
}

/* ---- Keys ---- */

static void unknown_key(struct loader *l, unsigned line, const char *name)
{
	const char *instead = config_key_removed(l->kind, name);
	struct suggestion s = { .text = name };
	const struct config_key *key;

	if (instead) {
		config_report(&l->report, here(l, line), l->section_text, name, "removed: %s",
			      instead);
		return;
	}
	for (unsigned i = 0; (key = config_key_at(i)); i++)
		if (key->section == l->kind)
			suggest_try(&s, key->name);
	if (s.best) /* the key most likely meant is not reported as missing as well */
		config_key_origin(config_key_find(l->kind, s.best), l->section)->refused = true;
	config_report(&l->report, here(l, line), l->section_text, name,
		      "expected a key of %s, got '%s'%s", config_kinds[l->kind].heading, name,
		      suggest_hint(&s));
}

/* Sets a value, or adds an entry to a list. */
static void set_value(struct loader *l, const struct config_key *key, unsigned line,
		      const char *value)
{
	char expected[CONFIG_TEXT_MAX], hint[CONFIG_TEXT_MAX];
	int err = -ENAMETOOLONG;

	if (strlen(value) <= CONFIG_VALUE_MAX)
		err = key->type->parse(key, value, here(l, line), l->section);
	if (!err)
		return;
	config_key_origin(key, l->section)->refused = true;
	switch (err) {
	case -ENAMETOOLONG:
		config_report(&l->report, here(l, line), l->section_text, key->name,
			      "expected at most %u bytes, got '%s'", CONFIG_VALUE_MAX, value);
		return;
	case -E2BIG:
		config_report(&l->report, here(l, line), l->section_text, key->name,
			      "expected at most %u entries, got '%s' as well", key->type->list->max,
			      value);
		return;
	case -EEXIST:
		config_report(&l->report, here(l, line), l->section_text, key->name,
			      "expected either '%s' or %s, got '%s' as well", key->preset,
			      key->type->list->others, value);
		return;
	default:
		config_key_expect(key, expected);
		config_key_hint(key, value, hint);
		config_report(&l->report, here(l, line), l->section_text, key->name,
			      "expected %s, got '%s'%s", expected, value, hint);
	}
}

/* Splits a list at commas and strips white space around the entries. */
static void set_list(struct loader *l, const struct config_key *key, unsigned line,
		     const char *value)
{
	for (bool more = true; more;) {
		size_t length = strcspn(value, ",");
		char entry[INI_LINE_MAX + 1];
		size_t skip = strspn(value, " \t");

		skip = MIN(skip, length);
		snprintf(entry, sizeof(entry), "%.*s", (int)(length - skip), value + skip);
		for (size_t end = strlen(entry); end > 0 && strchr(" \t", entry[end - 1]);)
			entry[--end] = '\0';
		set_value(l, key, line, entry);
		more = value[length] == ',';
		value += length + more;
	}
}

static void on_setting(void *context, unsigned line, const char *name, const char *value)
{
	struct loader *l = context;
	const struct config_key *key;
	struct config_origin *origin;
	bool first;

	if (!l->section)
		return;
	key = config_key_find(l->kind, name);
	if (!key) {
		unknown_key(l, line, name);
		return;
	}
	origin = config_key_origin(key, l->section);
	first = origin->file != l->file;
	if (!first && !key->type->list) {
		config_report(&l->report, here(l, line), l->section_text, name,
			      "expected one value, got '%s' as well (first in line %u)", value,
			      origin->line);
		return;
	}
	if (first)
		*origin = here(l, line);
	if (first && key->type->list)
		*config_key_count(key, l->section) = 0;
	if (key->type->list)
		set_list(l, key, line, value);
	else
		set_value(l, key, line, value);
}

static void on_error(void *context, unsigned line, const char *text)
{
	struct loader *l = context;

	config_report(&l->report, here(l, line), NULL, NULL, "%s", text);
}

/* ---- Files ---- */

static const struct ini_events ini_events = {
	.section = on_section,
	.setting = on_setting,
	.error = on_error,
};

/* Makes name the file being read; false when there are too many. */
static bool begin_file(struct loader *l, const char *name)
{
	struct config *config = l->config;

	if (config->file_count == CONFIG_FILES_MAX) {
		config_report(&l->report, here(l, 0), NULL, NULL,
			      "expected at most %u files, got '%s' as well", CONFIG_FILES_MAX,
			      name);
		return false;
	}
	l->section = NULL;
	l->file = config->files[config->file_count++] = config_escape(name);
	return true;
}

/* Reads a whole file, less than CONFIG_BYTES_MAX bytes, into `to`.  Returns their
 * number, or -1 with *ret_why. */
static ssize_t read_file(const char *path, char *to, const char **ret_why)
{
	int fd = open_file(path, O_RDONLY, false, ret_why);
	ssize_t bytes = 0, n = 1;

	if (fd < 0)
		return -1;
	for (; n > 0 && bytes < CONFIG_BYTES_MAX; bytes += n)
		n = read(fd, to + bytes, (size_t)(CONFIG_BYTES_MAX - bytes));
	if (n < 0 || bytes == CONFIG_BYTES_MAX) {
		*ret_why = strerror(n < 0 ? errno : EFBIG);
		bytes = -1;
	}
	close(fd);
	return bytes;
}

static void load_file(struct loader *l, const char *path)
{
	char *bytes = malloc(CONFIG_BYTES_MAX);
	const char *why = strerror(ENOMEM);
	ssize_t length;

	if (begin_file(l, path)) {
		length = bytes ? read_file(path, bytes, &why) : -1;
		if (length < 0)
			config_report(&l->report, here(l, 0), NULL, NULL, "%s", why);
		else
			ini_read(bytes, (size_t)length, &ini_events, l);
	}
	free(bytes);
}

static int is_drop_in(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return entry->d_name[0] != '.' && length > 4 && !strcmp(entry->d_name + length - 4, ".ini");
}

static int in_byte_order(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Reads conf.d/ *.ini in path's directory, which need not exist. */
static void load_drop_ins(struct loader *l, const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = text_new("%.*sconf.d", slash ? (int)(slash + 1 - path) : 0, path), *name;
	struct dirent **entries;
	int count = scandir(folder, &entries, is_drop_in, in_byte_order);
	if (count < 0 && errno != ENOENT) {
		int err = errno;

		if (begin_file(l, folder))
			config_report(&l->report, here(l, 0), NULL, NULL, "%s", strerror(err));
	}
	for (int i = 0; i < count; i++) {
		name = text_new("%s/%s", folder, entries[i]->d_name);
		load_file(l, name);
		free(name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	free(folder);
}

/* ---- Loading ---- */

static void init(struct loader *l, struct config_errors *errors)
{
	struct config *config = calloc(1, sizeof(*config));

	*l = (struct loader){ .config = config };
	l->report = (struct config_report){ .config = config, .errors = errors };
	if (config) {
		config->listeners = calloc(CONFIG_LISTENERS_MAX, sizeof(*config->listeners));
		config->exports = calloc(CONFIG_EXPORTS_MAX, sizeof(*config->exports));
	}
	if (!config || !config->listeners || !config->exports)
		abort();
	set_defaults(CONFIG_SERVER, &config->server);
	runtime_socket(config->server.control, sizeof(config->server.control));
}

static void read_files(struct loader *l, const char *path)
{
	l->config->path = strdup(path);
	if (!l->config->path)
		abort();
	load_file(l, path);
	load_drop_ins(l, path);
}

static void read_text(struct loader *l, const char *name, const char *text, size_t bytes)
{
	l->config->text = strndup(text, bytes);
	if (!l->config->text)
		abort();
	if (begin_file(l, name))
		ini_read(text, bytes, &ini_events, l);
}

static int finish(struct loader *l, struct config **ret_config)
{
	const struct config *config = l->config;

	if (config->path && config->listener_count == 0 && l->report.errors->count == 0)
		config_report(
			&l->report, (struct config_origin){ .file = config->files[0] }, NULL, NULL,
			"expected a [listener NAME] section, there is none: nothing to serve");
	config_check(&l->report);
	if (l->report.errors->count > 0) {
		config_free(l->config);
		return -EINVAL;
	}
	*ret_config = l->config;
	return 0;
}

int config_load(const char *path, struct config **ret_config, struct config_errors *errors)
{
	struct loader l;

	init(&l, errors);
	read_files(&l, path);
	return finish(&l, ret_config);
}

int config_load_text(const char *name, const char *text, size_t bytes, struct config **ret_config,
		     struct config_errors *errors)
{
	struct loader l;

	init(&l, errors);
	read_text(&l, name, text, bytes);
	return finish(&l, ret_config);
}

int config_load_again(const struct config *of, struct config **ret_config,
		      struct config_errors *errors)
{
	struct loader l;

	init(&l, errors);
	if (of->path)
		read_files(&l, of->path);
	else
		read_text(&l, of->files[0], of->text, strlen(of->text));
	return finish(&l, ret_config);
}

struct config *config_ref(struct config *config)
{
	config->others++;
	return config;
}

void config_free(struct config *config)
{
	if (!config || config->others-- > 0)
		return;
	for (unsigned i = 0; i < config->file_count; i++)
		free(config->files[i]);
	free(config->path);
	free(config->text);
	free(config->listeners);
	free(config->exports);
	free(config);
}
