/* Checks the paths in a configuration against the file system, and what the files of TLS have.  Not
 * for the daemon's main thread: stat() may wait for ever for a file system's server. */
#include <string.h>
#include <sys/stat.h>

#include "config_keys.h"
#include "config_report.h"
#include "tls.h"
#include "util.h"

static const char *kind_of(mode_t mode)
{
	static const struct {
		mode_t format;
		const char *name;
	} kinds[] = {
		{ S_IFDIR, "a directory" },
		{ S_IFCHR, "a character device" },
		{ S_IFIFO, "a FIFO" },
		{ S_IFSOCK, "a socket" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++)
		if ((mode & S_IFMT) == kinds[i].format)
			return kinds[i].name;
	return NULL;
}

/* A missing file is no error: it may be made later, or exist on another host. */
static void check_path(struct config_report *r, struct export_config *e)
{
	struct stat st;

	if (!e->options.path[0] || stat(e->options.path, &st) < 0 || !kind_of(st.st_mode))
		return;
	REFUSE_IN(r, CONFIG_EXPORT, e, "path",
		  "expected a regular file or a block device, got '%s' (%s)", e->options.path,
		  kind_of(st.st_mode));
}

/* Unlike those of exports they have to be there, as a start and a reload need them. */
static void check_tls(struct config_report *r, struct listener_config *l)
{
	struct config_origin at = l->section;
	struct reason reason;
	char *why = reason.text;

	if (l->tls.mode == TLS_NONE || tls_check(&l->tls, &reason) == 0)
		return;
	strsep(&why, ":");
	if (why && config_key_find(CONFIG_LISTENER, reason.text))
		at = config_key_where(CONFIG_LISTENER, reason.text, l);
	config_report(r, at, SECTION_TEXT(CONFIG_LISTENER, l), reason.text, "%s",
		      why ? why + 1 : "");
}

void config_check_paths(struct config *config, struct config_errors *errors)
{
	struct config_report r = { .config = config, .errors = errors };

	for (unsigned i = 0; i < config->export_count; i++)
		check_path(&r, &config->exports[i]);
	for (unsigned i = 0; i < config->listener_count; i++)
		check_tls(&r, &config->listeners[i]);
}
