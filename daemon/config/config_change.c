/* See config_change.h. */
#include "config_change.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"
#include "config_report.h"
#include "config_run.h"
#include "text.h"

/* The text of a setting is a line of a file: nothing in it may begin another one. */
static int check_setting(const char *setting, struct reason *reason)
{
	size_t name = strspn(setting, "abcdefghijklmnopqrstuvwxyz0123456789-");

	if (!config_run_fits(setting))
		return reason_set(reason, -EINVAL, "a value has no control characters and no ` ;`");
	if (name == 0 || setting[name] != '=')
		return reason_set(reason, -EINVAL, "expected KEY=VALUE, got '%.200s'", setting);
	return 0;
}

int config_change_set(const char *listener, const char *const *settings, unsigned count,
		      char **ret_text, struct reason *reason)
{
	char *text = NULL;
	FILE *to = text_open(&text);
	int rc = 0;

	fprintf(to, "[listener %s]\n", listener);
	for (unsigned i = 0; i < count && rc == 0; i++) {
		rc = check_setting(settings[i], reason);
		fprintf(to, "%s\n", settings[i]);
	}
	fclose(to);
	if (rc < 0)
		free(text);
	else
		*ret_text = text;
	return rc;
}

/* Does the text open a section whose name `in_force` already has?  For a text with errors: no; the
 * errors are reported when it is read as a part of the configuration. */
static bool is_taken(const struct config *in_force, const char *text)
{
	struct config_errors errors = { 0 };
	const struct config_head *section;
	struct config *config = NULL;
	bool taken = false;

	config_load_text("nbctl", text, strlen(text), &config, &errors);
	config_errors_free(&errors);
	for (unsigned kind = CONFIG_SERVER + 1; config && kind < CONFIG_SECTION_COUNT; kind++)
		for (unsigned i = 0; (section = config_section_at(config, kind, i)); i++)
			taken |= config_section_find(in_force, kind, section->name) != NULL;
	config_free(config);
	return taken;
}

int config_change_add(const struct config *in_force, char *spec, char **ret_text,
		      struct reason *reason)
{
	for (unsigned first = 1; first <= CONFIG_LISTENERS_MAX; first++) {
		char *text;
		int rc = config_run_text(&spec, 1, first, "", &text, reason);

		if (rc < 0)
			return rc;
		if (!is_taken(in_force, text)) {
			*ret_text = text;
			return 0;
		}
		free(text);
	}
	return reason_set(reason, -EINVAL, "there are %d such listeners already",
			  CONFIG_LISTENERS_MAX);
}

/* The text of a change without the sections of a listener; NULL: it has no other listener. */
static char *without(const char *text, const char *listener)
{
	char header[CONFIG_SECTION_TEXT_MAX + 4], *left;
	bool skipped = false, any = false;
	FILE *to = text_open(&left);

	snprintf(header, sizeof(header), "[listener %s]\n", listener);
	for (size_t line; *text; text += line) {
		line = strcspn(text, "\n") + 1;
		if (*text == '[') {
			skipped = !strncmp(text, header, strlen(header));
			any |= !skipped && !strncmp(text, "[listener ", strlen("[listener "));
		}
		if (!skipped)
			fwrite(text, 1, line, to);
	}
	fclose(to);
	if (any)
		return left;
	free(left);
	return NULL;
}

int config_change_remove(const struct config *in_force, const char *listener,
			 char *ret_texts[static CONFIG_CHANGES_MAX], struct reason *reason)
{
	int count = 0;

	for (unsigned i = 0; i < in_force->listener_count; i++) {
		struct config_origin at = in_force->listeners[i].section;

		if (strcmp(in_force->listeners[i].name, listener) != 0 ||
		    config_change_made(in_force, at))
			continue;
		return reason_set(
			reason, -EINVAL,
			"[listener %s] comes from %s, not from `nbctl add`: %s`nbctl drain %s`",
			listener, at.file,
			in_force->path ? "take it out there and reload, or " : "", listener);
	}
	for (unsigned i = 0; i < in_force->change_count; i++) {
		ret_texts[count] = without(in_force->changes[i], listener);
		count += ret_texts[count] != NULL;
	}
	return count;
}

bool config_change_made(const struct config *config, struct config_origin origin)
{
	for (unsigned i = config->file_count - config->change_count; i < config->file_count; i++)
		if (origin.file == config->files[i])
			return true;
	return false;
}
