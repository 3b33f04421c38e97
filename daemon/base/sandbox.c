/* Detects a systemd sandbox by the mounts and permissions that this process has.  See sandbox.h. */
#include "sandbox.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "util.h"

/* Was this process started by systemd itself?  $SYSTEMD_EXEC_PID (systemd 248) is the PID of
 * the service's main process, so it differs in a process that a service's shell has started. */
static bool is_service(void)
{
	const char *pid = getenv("SYSTEMD_EXEC_PID");

	return pid && atol(pid) == getpid();
}

/* ProtectHome=yes mounts a directory without permissions over /home, /root and /run/user. */
static bool home_is_hidden(const char *path)
{
	static const char *const homes[] = { "/home", "/root", "/run/user" };
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(homes); i++) {
		size_t length = strlen(homes[i]);

		if (!strncmp(path, homes[i], length) && path[length] == '/')
			return stat(homes[i], &st) == 0 && (st.st_mode & 07777) == 0;
	}
	return false;
}

/* PrivateDevices= leaves only pseudo devices in /dev; /sys still shows the host's devices. */
static bool device_is_hidden(const char *path)
{
	char block[PATH_MAX];

	if (strncmp(path, "/dev/", 5) != 0 || access(path, F_OK) == 0)
		return false;
	if (strchr(path + 5, '/')) /* a link to a device, made by udev or LVM */
		return access("/dev/disk", F_OK) < 0;
	snprintf(block, sizeof(block), "/sys/class/block/%s", path + 5);
	return access(block, F_OK) == 0;
}

/* ProtectSystem=strict: is the path, or the directory of a file that does not exist
 * yet, on a read-only mount? */
static bool is_on_read_only(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	struct statvfs fs;

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		 slash ? path : ".");
	return (statvfs(path, &fs) == 0 || statvfs(folder, &fs) == 0) && (fs.f_flag & ST_RDONLY);
}

const char *sandbox_advice(const char *path, bool to_write, int error)
{
	if (error != EROFS && error != EACCES && error != EPERM && error != ENOENT)
		return "";
	if (!is_service())
		return "";
	if (home_is_hidden(path))
		return "; the unit hides all homes: `systemctl edit nbserved`, [Service] "
		       "ProtectHome=no, and restart; or choose a path elsewhere";
	if (device_is_hidden(path))
		return "; the unit hides block devices: `systemctl edit nbserved`, [Service] "
		       "PrivateDevices=no, DeviceAllow= that device with rw, "
		       "SupplementaryGroups=disk, and restart";
	if (to_write && error != ENOENT && is_on_read_only(path))
		return "; the unit does not let the daemon write there: `systemctl edit nbserved`, "
		       "[Service] ReadWritePaths= with a folder that the daemon's user can write "
		       "to, and restart";
	return "";
}
