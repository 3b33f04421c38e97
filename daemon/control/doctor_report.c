/* Items of the doctor's report.  See doctor_report.h. */
#include "doctor_report.h"

#include <string.h>

#include "reason.h"

void doctor_set_reason(json_t *item, const char *reason, const char *fix)
{
	const char *semicolon = strstr(reason, "; "), *own_fix = reason_fix(reason);
	size_t length = semicolon ? (size_t)(semicolon - reason) : strlen(reason);

	json_object_set_new(item, "reason", json_stringn(reason, length));
	json_object_set_new(item, "fix", json_string(own_fix ? own_fix : fix));
}

void doctor_add(json_t *checks, const char *name, bool ok, const char *value, const char *reason,
		const char *fix)
{
	json_t *item = json_pack("{s:s, s:b, s:s}", "name", name, "ok", ok, "value", value);

	doctor_set_reason(item, ok ? "" : reason, ok ? "" : fix);
	json_array_append_new(checks, item);
}
