/* Restrictions by the sandbox of a systemd unit, as far as they can be seen from inside:
 * systemd.exec(5).  Any thread. */
#pragma once
#include <stdbool.h>

/* Advice for when `path` could not be opened (to be written, too), with this errno: "; ..." to
 * stand behind the reason; "" if nothing shows that a sandbox is why. */
const char *sandbox_advice(const char *path, bool to_write, int error);
