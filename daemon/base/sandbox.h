/* What the sandbox of a systemd unit forbids: systemd.exec(5).  Any thread. */
#pragma once

/* Advice for an error message when path could not be opened with errno `error`: "; ..." to append;
 * "" if this is no service, or no sandbox is likely the cause. */
const char *sandbox_advice(const char *path, int error);
