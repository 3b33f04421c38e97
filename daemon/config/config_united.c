/* Listeners that serve as one, such as the ports of an NVMe subsystem: as a key of their service
 * has the same value, clients take their exports for the same disks.  Main thread; pure. */
#include <string.h>

#include "config_keys.h"
#include "config_report.h"
#include "registry.h"

enum { QUOTED_MAX = CONFIG_TEXT_MAX + 3 };

/* Writes entry `index` of a value in quotes; false: there is none. */
static bool entry_of(const struct config_key *key, const struct listener_config *l, unsigned index,
		     char quoted[static QUOTED_MAX])
{
	char text[CONFIG_TEXT_MAX];

	if (index >= config_key_lines(key, l)) {
		strcpy(quoted, "nothing");
		return false;
	}
	key->type->format(key, l, index, text);
	snprintf(quoted, QUOTED_MAX, "'%s'", text);
	return true;
}

/* Reports the first entry in which l's value differs from o's.  by: the key that unites them. */
static void check_same(struct config_report *r, struct listener_config *l,
		       struct listener_config *o, const struct config_key *key, const char *by)
{
	struct config_origin at = config_place(CONFIG_LISTENER, key->name, o);
	char value[QUOTED_MAX], other[QUOTED_MAX];
	bool has, had;
	unsigned i = 0;

	if (config_key_origin(key, l)->refused || config_key_origin(key, o)->refused)
		return;
	do {
		has = entry_of(key, l, i, value);
		had = entry_of(key, o, i, other);
	} while (has && had && !strcmp(value, other) && ++i);
	if (has == had && !strcmp(value, other))
		return;
	REFUSE(r, l, key->name,
	       "expected %s as in [%s] (%s:%u), or another `%s`, got %s: listeners with the same %s "
	       "serve the same",
	       other, SECTION_TEXT(CONFIG_LISTENER, o), at.file, at.line, by, value, by);
}

static void check_common(struct config_report *r, struct listener_config *l,
			 struct listener_config *o, const char *by)
{
	const struct config_key *key;

	check_same(r, l, o, config_key_find(CONFIG_LISTENER, "exports"), by);
	for (unsigned i = 0; (key = config_key_at(i)); i++)
		if (key->table && key->table == l->service->keys && key->of->common)
			check_same(r, l, o, key, by);
}

/* The first listener with that value of the key; l itself if none is earlier. */
static struct listener_config *first_with(const struct config *config, const struct config_key *key,
					  struct listener_config *l, const char *value)
{
	struct listener_config *o = config->listeners;
	char other[CONFIG_TEXT_MAX];

	for (; o < l; o++) {
		key->type->format(key, o, 0, other);
		if (o->service == l->service && !strcmp(value, other))
			break;
	}
	return o;
}

void config_check_united(struct config_report *r, struct listener_config *l)
{
	const struct config_key *key;

	for (unsigned i = 0; l->service && (key = config_key_at(i)); i++) {
		struct listener_config *o;
		char value[CONFIG_TEXT_MAX];

		if (!key->table || key->table != l->service->keys || !key->of->unites)
			continue;
		key->type->format(key, l, 0, value);
		if (key->word && !strcmp(value, key->word))
			continue;
		o = first_with(r->config, key, l, value);
		if (o != l)
			check_common(r, l, o, key->name);
	}
}
