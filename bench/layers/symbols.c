/* Tables of symbols.  See symbols.h; spaces.c has the processes that they are of. */
#include "symbols.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "util.h"

static struct symbol *add(struct symbols *s, size_t *room)
{
	if (s->count == *room) {
		*room = MAX(2 * *room, (size_t)1024);
		s->list = must(reallocarray(s->list, *room, sizeof(*s->list)));
	}
	return &s->list[s->count++];
}

static int compare(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* A function of unknown length ends where the next one begins. */
static void sort(struct symbols *s)
{
	if (s->count)
		qsort(s->list, s->count, sizeof(*s->list), compare);
	for (size_t i = 0; i < s->count; i++)
		if (s->list[i].end <= s->list[i].start)
			s->list[i].end = i + 1 < s->count ? s->list[i + 1].start : UINT64_MAX;
}

void symbols_free(struct symbols *s)
{
	free(s->list);
	free(s->text);
	*s = (struct symbols){};
}

const struct symbol *symbols_find(const struct symbols *s, uint64_t address)
{
	size_t low = 0, high = s->count;
	struct symbol *found;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->list[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	/* Several symbols may have one address: any of their names will do. */
	found = low > 0 ? &s->list[low - 1] : NULL;
	if (!found || address >= found->end)
		return NULL;
	if (!found->layered)
		found->layer = s->own ? layer_of_own(found->name, found->owner)
				      : layer_of_function(found->name, found->owner);
	found->layered = true;
	return found;
}

/* ---- /proc/kallsyms: ffffffff81000000 T name, or ... T name [module] ---- */

static bool kernel_line(char *line, struct symbol *ret)
{
	char *end, *name, *owner;

	ret->start = strtoull(line, &end, 16);
	ret->end = 0;
	if (end == line || end[0] != ' ' || !end[1] || !strchr("tTwW", end[1]) || end[2] != ' ')
		return false;
	name = end + 3;
	end = name + strcspn(name, " \t");
	owner = end + strspn(end, " \t");
	*end = '\0';
	ret->name = name;
	ret->owner = owner;
	return *name;
}

int symbols_kernel(struct symbols *ret, char *text)
{
	size_t room = 0;
	char *end;

	*ret = (struct symbols){ .text = text };
	for (char *line = text; *line; line = end) {
		struct symbol found = {};

		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = '\0';
		if (!kernel_line(line, &found) || !found.start)
			continue;
		found.kernel = true;
		*add(ret, &room) = found;
	}
	sort(ret);
	return ret->count ? 0 : -EACCES;
}

/* ---- ELF: elf(5) ---- */

struct image {
	const unsigned char *bytes;
	size_t size;
	ElfW(Ehdr) header;
};

/* Copies a structure at an offset; false: it does not lie within the file. */
static bool take(const struct image *image, uint64_t offset, void *to, size_t bytes)
{
	if (offset > image->size || bytes > image->size - offset)
		return false;
	memcpy(to, image->bytes + offset, bytes);
	return true;
}

static bool take_section(const struct image *image, unsigned index, ElfW(Shdr) * ret)
{
	return index < image->header.e_shnum &&
	       take(image, image->header.e_shoff + (uint64_t)index * sizeof(*ret), ret,
		    sizeof(*ret));
}

/* The section with symbols, and that with their names. */
static bool find_table(const struct image *image, unsigned type, ElfW(Shdr) * ret_symbols,
		       ElfW(Shdr) * ret_names)
{
	for (unsigned i = 0; take_section(image, i, ret_symbols); i++)
		if (ret_symbols->sh_type == type)
			return take_section(image, ret_symbols->sh_link, ret_names) &&
			       ret_names->sh_offset <= image->size &&
			       ret_names->sh_size <= image->size - ret_names->sh_offset;
	return false;
}

/* Where a virtual address is in the file; false: nowhere. */
static bool to_offset(const struct image *image, uint64_t address, uint64_t *ret_offset)
{
	ElfW(Phdr) segment;

	for (unsigned i = 0; i < image->header.e_phnum; i++) {
		if (!take(image, image->header.e_phoff + (uint64_t)i * sizeof(segment), &segment,
			  sizeof(segment)))
			return false;
		if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
		    address - segment.p_vaddr < segment.p_filesz) {
			*ret_offset = address - segment.p_vaddr + segment.p_offset;
			return true;
		}
	}
	return false;
}

/* A name of the copy in ret->text; "": there is none. */
static const char *name_of(const struct symbols *s, const ElfW(Shdr) * names, uint64_t at)
{
	return at < names->sh_size ? s->text + at : "";
}

/* The symbol of a file comes before those of its static functions; the global ones are last. */
static void read_table(struct symbols *s, const struct image *image, const ElfW(Shdr) * table,
		       const ElfW(Shdr) * names, bool own, const char *owner)
{
	const char *file = "";
	size_t room = s->count;
	ElfW(Sym) symbol;

	for (uint64_t i = 0; i < table->sh_size / sizeof(symbol); i++) {
		uint64_t offset;
		const char *name;

		if (!take(image, table->sh_offset + i * sizeof(symbol), &symbol, sizeof(symbol)))
			return;
		name = name_of(s, names, symbol.st_name);
		/* ELF32_ST_TYPE() takes the same bits. */
		if (ELF64_ST_TYPE(symbol.st_info) == STT_FILE)
			file = name;
		if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !symbol.st_value || !*name ||
		    !to_offset(image, symbol.st_value, &offset))
			continue;
		if (own)
			owner = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ? file : "";
		*add(s, &room) = (struct symbol){
			.start = offset,
			.end = offset + symbol.st_size,
			.name = name,
			.owner = owner,
		};
	}
}

int symbols_elf(struct symbols *ret, const void *bytes, size_t size, bool own, const char *owner)
{
	struct image image = { .bytes = bytes, .size = size };
	ElfW(Shdr) table, names;

	*ret = (struct symbols){ .own = own };
	if (!take(&image, 0, &image.header, sizeof(image.header)) ||
	    memcmp(image.header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    image.header.e_ident[EI_CLASS] !=
		    (sizeof(void *) == sizeof(uint64_t) ? ELFCLASS64 : ELFCLASS32))
		return -EINVAL;
	/* A stripped library still has the symbols that it exports.  A program exports hardly any.
	 */
	if (!find_table(&image, SHT_SYMTAB, &table, &names) &&
	    (own || !find_table(&image, SHT_DYNSYM, &table, &names)))
		return -ENODATA;
	ret->text = must(calloc(names.sh_size + 1, 1));
	memcpy(ret->text, image.bytes + names.sh_offset, names.sh_size);
	read_table(ret, &image, &table, &names, own, owner);
	sort(ret);
	return ret->count ? 0 : -ENODATA;
}
