/* Validation of the keys that engines have.  Main thread; pure. */
#include <stdarg.h>

#include "config_keys.h"
#include "config_report.h"
#include "registry.h"
#include "util.h"

bool config_may_use(const struct listener_config *l, const struct engine *engine)
{
	return l->engine ? engine == l->engine : registry_engine_carries(engine, l->transport);
}

bool config_has_datagrams(const struct listener_config *l)
{
	bool has = l->transport->datagrams;

	for (unsigned i = 0; engines[i]; i++)
		if (config_may_use(l, engines[i]))
			has |= registry_variant(engines[i], &l->options)->forgets;
	return has;
}

/* Context of the check() functions of the engines' own tables. */
struct own_check {
	struct key_check of;
	struct config_report *report;
	struct listener_config *listener;
};

static void refuse_own(struct key_check *check, const char *key, const char *format, ...)
{
	struct own_check *own = container_of(check, struct own_check, of);
	char text[CONFIG_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	REFUSE(own->report, own->listener, key, "%s", text);
}

static void check_own(struct config_report *r, struct listener_config *l)
{
	struct own_check check = { .of = { .options = &l->options,
					   .engine = l->engine,
					   .workers = l->workers,
					   .max_connections = l->max_connections,
					   .service = l->service,
					   .refuse = refuse_own },
				   .report = r,
				   .listener = l };

	if (config_key_origin(config_key_find(CONFIG_LISTENER, "engine"), l)->refused)
		return;
	for (unsigned i = 0; i < l->address_count; i++)
		check.of.local |= l->addresses[i].sa.ss_family == AF_UNIX;
	for (unsigned i = 0; engines[i]; i++) {
		const struct key_table *keys = engines[i]->keys;

		if (keys && keys->check && config_may_use(l, engines[i]))
			keys->check(&check.of);
	}
}

/* With `engine = auto` any engine of the transport may be the one in use. */
static uint64_t features_had(const struct listener_config *l)
{
	uint64_t has = 0;

	for (unsigned i = 0; engines[i]; i++)
		if (config_may_use(l, engines[i]))
			has |= registry_variant(engines[i], &l->options)->features;
	return has;
}

static void check_features(struct config_report *r, struct listener_config *l)
{
	uint64_t foreign = l->options.features_off & ~features_had(l);

	for (unsigned f = 0; f < FEATURE_COUNT; f++)
		if (foreign & FEATURE_MASK(f))
			REFUSE(r, l, "features", "engine %s has no %s to do without",
			       l->engine ? l->engine->name : "auto", engine_feature_names[f]);
}

void config_check_engine(struct config_report *r, struct listener_config *l)
{
	check_own(r, l);
	check_features(r, l);
}
