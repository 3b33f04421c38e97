/* The boot ID of the kernel, by which two processes tell whether they are on one host. */
#pragma once

/* Read once.  "": it cannot be read.  Main thread. */
const char *boot_id(void);
