/* Key `features`: the features that an engine must not use, a mask written as `-multishot_recv,
 * -buffer_ring`.  See config_keys.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config_keys.h"
#include "worker.h"

#define UNUSED __attribute__((unused))

/* Words: `all`, then `-NAME` in the order of enum engine_feature. */
static const char *word_features(const struct config_key *key, unsigned index, uint64_t *ret_value)
{
	static char words[FEATURE_COUNT][32];

	*ret_value = 0;
	if (index == 0)
		return key->preset;
	for (unsigned f = 0; f < FEATURE_COUNT; f++)
		if ((engine_features_optional & FEATURE_MASK(f)) && --index == 0) {
			snprintf(words[f], sizeof(words[f]), "-%s", engine_feature_names[f]);
			*ret_value = FEATURE_MASK(f);
			return words[f];
		}
	return NULL;
}

/* The bit of `-NAME`, or 0. */
static uint64_t feature_off(const char *name, size_t length)
{
	for (unsigned f = 0; f < FEATURE_COUNT; f++)
		if ((engine_features_optional & FEATURE_MASK(f)) && length > 1 && name[0] == '-' &&
		    strlen(engine_feature_names[f]) == length - 1 &&
		    !strncmp(engine_feature_names[f], name + 1, length - 1))
			return FEATURE_MASK(f);
	return 0;
}

/* The first part of text that is no valid feature, or NULL; *ret_mask: the features before it. */
static const char *features_refused(const char *text, uint64_t *ret_mask)
{
	*ret_mask = 0;
	for (;;) {
		size_t length = strcspn(text, ", \t");
		uint64_t bit = feature_off(text, length);

		if (!bit)
			return text;
		*ret_mask |= bit;
		text += length;
		text += strspn(text, " \t");
		if (!*text)
			return NULL;
		text += *text == ',';
		text += strspn(text, " \t");
	}
}

static int parse_features(const struct config_key *key, const char *text,
			  UNUSED struct config_origin at, void *section)
{
	uint64_t mask = 0;

	if (strcmp(text, key->preset) != 0 && features_refused(text, &mask))
		return -EINVAL;
	*(uint64_t *)config_field(key, section) = mask;
	return 0;
}

static void format_features(const struct config_key *key, const void *section,
			    UNUSED unsigned index, char text[static CONFIG_TEXT_MAX])
{
	uint64_t mask = *(const uint64_t *)config_field(key, section);
	size_t used = 0;

	if (!mask)
		strcpy(text, key->preset);
	for (unsigned f = 0; f < FEATURE_COUNT; f++)
		if (mask & FEATURE_MASK(f))
			used += (size_t)snprintf(text + used, CONFIG_TEXT_MAX - used, "%s-%s",
						 used ? ", " : "", engine_feature_names[f]);
}

/* For several values names the invalid one. */
static void hint_features(const char *value, char text[static CONFIG_TEXT_MAX])
{
	uint64_t mask;
	const char *refused = features_refused(value, &mask);

	if (refused && strchr(value, ','))
		snprintf(text, CONFIG_TEXT_MAX, " ('%.*s')", (int)strcspn(refused, ", \t"),
			 refused);
}

const struct config_type config_features = {
	.parse = parse_features,
	.format = format_features,
	.hint = hint_features,
	.word = word_features,
};
