/* Times as text.  See json.h. */
#include "json.h"

#include <stdio.h>
#include <time.h>

#include "util.h"

json_t *json_time_at(uint64_t ns)
{
	char date[32], full[48];
	time_t seconds = (time_t)(ns / NS_PER_S);
	struct tm tm;

	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
	snprintf(full, sizeof(full), "%s.%03uZ", date, (unsigned)(ns % NS_PER_S / NS_PER_MS));
	return json_string(full);
}

json_t *json_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return json_time_at((uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec);
}
