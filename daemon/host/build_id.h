/* The build ID (ELF note) of the running program. */
#pragma once

/* The build ID that the linker made, in hexadecimal; "": it made none. */
const char *build_id(void);
