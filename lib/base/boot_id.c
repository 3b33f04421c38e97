/* random(4): /proc/sys/kernel/random/boot_id.  See boot_id.h. */
#include "boot_id.h"

#include "text.h"

const char *boot_id(void)
{
	static char text[40];

	if (!*text)
		text_file_line("/proc/sys/kernel/random/boot_id", text, sizeof(text));
	return text;
}
