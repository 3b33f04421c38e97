/* The current time as a JSON string.  See json.h. */
#include "json.h"

#include <stdio.h>
#include <time.h>

#include "util.h"

json_t *json_time(void)
{
	char date[32], full[48];
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &tm));
	snprintf(full, sizeof(full), "%s.%03uZ", date, (unsigned)(now.tv_nsec / NS_PER_MS));
	return json_string(full);
}
