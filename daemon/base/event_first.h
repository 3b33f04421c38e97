/* Order of the main thread's events: sd-event dispatches one event at a time, of the pending ones
 * one with the smallest priority. */
#pragma once
#include <systemd/sd-event.h>

/* Signals, the watchdog and messages of workers come before all clients of the control socket.  For
 * a source that lives as long as the loop; drops the caller's reference. */
static inline int event_keep_first(sd_event_source *source)
{
	int rc = sd_event_source_set_priority(source, SD_EVENT_PRIORITY_IMPORTANT);

	if (rc >= 0)
		rc = sd_event_source_set_floating(source, true);
	sd_event_source_unref(source);
	return rc;
}
