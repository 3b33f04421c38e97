/* random(4): /proc/sys/kernel/random/boot_id.  See boot_id.h. */
#include "boot_id.h"

#include <stdio.h>
#include <string.h>

const char *boot_id(void)
{
	static char text[40];
	FILE *from = *text ? NULL : fopen("/proc/sys/kernel/random/boot_id", "re");

	if (from && fgets(text, sizeof(text), from))
		text[strcspn(text, "\n")] = '\0';
	if (from)
		fclose(from);
	return text;
}
