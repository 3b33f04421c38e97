/* Restrictions by the sandbox of a systemd unit, as far as they can be seen from inside:
 * systemd.exec(5).  Any thread. */
#pragma once
#include <stdbool.h>

/* Advice for an error message when path could not be opened (for writing if to_write) with errno
 * `error`: "; ..." to append; "" if there is no sign that a sandbox is the cause. */
const char *sandbox_advice(const char *path, bool to_write, int error);
