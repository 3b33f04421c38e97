/* Advice about the sandbox of a systemd unit.  See sandbox.h. */
#include "sandbox.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Was this process started by systemd itself?  $SYSTEMD_EXEC_PID (systemd 248) is the PID of
 * the service's main process, so it differs in a process that a service's shell has started. */
static bool is_service(void)
{
	const char *pid = getenv("SYSTEMD_EXEC_PID");

	return pid && atol(pid) == getpid();
}

static bool begins_with(const char *path, const char *folder)
{
	return !strncmp(path, folder, strlen(folder));
}

const char *sandbox_advice(const char *path, int error)
{
	if (!is_service())
		return "";
	if (error == EROFS)
		return "; the unit may not let the daemon write there: `systemctl edit nbserved`, "
		       "[Service] ReadWritePaths= with a folder that the daemon's user can write "
		       "to, and restart";
	if (error != EACCES && error != EPERM && error != ENOENT)
		return "";
	if (begins_with(path, "/home/") || begins_with(path, "/root/") ||
	    begins_with(path, "/run/user/"))
		return "; the unit may hide all homes: `systemctl edit nbserved`, [Service] "
		       "ProtectHome=no, and restart; or choose a path elsewhere";
	if (begins_with(path, "/dev/"))
		return "; the unit may hide block devices: `systemctl edit nbserved`, [Service] "
		       "PrivateDevices=no, DeviceAllow= that device with rw, "
		       "SupplementaryGroups=disk, and restart";
	return "";
}
