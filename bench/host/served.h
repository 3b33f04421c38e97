/* A daemon that serves for one measurement: a child that runs `nbserved --run`. */
#pragma once
#include <sys/types.h>

enum { SERVED_SPECS_MAX = 64 };

/* Starts the daemon with these specs (NULL-terminated) and this control socket, and waits until it
 * serves: its READY=1 of sd_notify(3). errors: a descriptor for its stderr; -1: ours.  Returns 0
 * and its pid, which the caller ends by served_stop(); or its exit status, with its message on
 * `errors`; or -errno: it could not be started, -ETIMEDOUT: it did not serve in time, -ECHILD: it
 * has ended without a status. */
int served_start(const char *program, char *const *specs, const char *socket, int errors,
		 pid_t *ret_pid);
/* Ends it, and waits until it has ended: its ports and files are free. */
void served_stop(pid_t pid);
