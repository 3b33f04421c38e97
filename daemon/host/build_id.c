/* Reads the note NT_GNU_BUILD_ID of the running program from memory.  See build_id.h. */
#include "build_id.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

enum { BUILD_ID_ROOM = 65 };

static void set_text(char *text, const unsigned char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

/* A segment of notes: each is a header, a name and a description, the latter two padded to 4. */
static bool find_in_notes(const char *at, size_t bytes, char *text, size_t room)
{
	const char *end = at + bytes;

	while ((size_t)(end - at) > sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const void *)at;
		const char *name = at + sizeof(*note),
			   *description = name + ((note->n_namesz + 3U) & ~3U);

		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
		    !memcmp(name, "GNU", 4) && 2 * (size_t)note->n_descsz < room) {
			set_text(text, (const unsigned char *)description, note->n_descsz);
			return true;
		}
		at = description + ((note->n_descsz + 3U) & ~3U);
	}
	return false;
}

/* The first object is the program itself. */
static int on_object(struct dl_phdr_info *info, size_t size, void *context)
{
	/* dlpi_addr is an integer.  NOLINTNEXTLINE(*-no-int-to-ptr) */
	const char *base = (const char *)info->dlpi_addr;
	char *text = context;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_NOTE &&
		    find_in_notes(base + part->p_vaddr, part->p_memsz, text, BUILD_ID_ROOM))
			break;
	}
	return 1;
}

const char *build_id(void)
{
	static char text[BUILD_ID_ROOM];

	if (!*text)
		dl_iterate_phdr(on_object, text);
	return text;
}
