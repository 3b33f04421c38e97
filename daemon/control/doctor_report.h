/* Private to the files of the doctor: items of its report. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

/* Splits reason into "reason" and "fix"; `fix` is used if it contains none. */
void doctor_set_reason(json_t *item, const char *reason, const char *fix);

/* Optional: nothing that the configuration asks for needs it, or the line of the listener or export
 * that does has its own verdict. */
enum doctor_need { DOCTOR_NEEDED, DOCTOR_OPTIONAL };

/* Adds a check.  reason, fix: why it is not ok, and what helps; unused if it is. */
void doctor_add(json_t *checks, const char *name, enum doctor_need need, bool ok, const char *value,
		const char *reason, const char *fix);
