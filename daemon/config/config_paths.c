/* Checks the paths in a configuration against the file system, and what the files of TLS have.  Not
 * for the daemon's main thread: a file system whose server is gone may keep stat() waiting for
 * ever. */
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
	char section[CONFIG_SECTION_TEXT_MAX];
	struct stat st;

	if (!e->options.path[0] || stat(e->options.path, &st) < 0 || !kind_of(st.st_mode))
		return;
	config_report(r, *config_key_origin(config_key_find(CONFIG_EXPORT, "path"), e),
		      config_section_text(CONFIG_EXPORT, e, section), "path",
		      "expected a regular file or a block device, got '%s' (%s)", e->options.path,
		      kind_of(st.st_mode));
}

/* Unlike those of exports they have to be there, as a start and a reload need them. */
static void check_tls(struct config_report *r, struct listener_config *l)
{
	char section[CONFIG_SECTION_TEXT_MAX];
	const struct config_origin *at;
	const struct config_key *key;
	struct reason reason;
	char *why = reason.text;

	if (l->tls.mode == TLS_NONE || tls_check(&l->tls, &reason) == 0)
		return;
	strsep(&why, ":");
	key = why ? config_key_find(CONFIG_LISTENER, reason.text) : NULL;
	at = key ? config_key_origin(key, l) : NULL;
	config_report(r, at && at->file ? *at : l->section,
		      config_section_text(CONFIG_LISTENER, l, section), reason.text, "%s",
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
