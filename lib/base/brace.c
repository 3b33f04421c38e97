/* See brace.h. */
#include "brace.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

bool brace_find(const char *text, struct brace *ret)
{
	for (const char *at = text; (at = strchr(at, '{')); at++) {
		bool doubled = at[1] == '{';
		const char *word = at + 1 + doubled;
		size_t bytes = strspn(word, "abcdefghijklmnopqrstuvwxyz_");

		if (bytes == 0 || word[bytes] != '}' || (doubled && word[bytes + 1] != '}') ||
		    (at > text && strchr("$%", at[-1])))
			continue;
		*ret = (struct brace){ at, bytes + 2 + 2 * doubled, doubled };
		return true;
	}
	return false;
}

bool brace_is(const struct brace *b, const char *name)
{
	size_t bytes = strlen(name);

	return !b->doubled && b->bytes == bytes + 2 && !memcmp(b->text + 1, name, bytes);
}

char *brace_fill(const char *text,
		 const char *(*value)(const void *context, const struct brace *brace),
		 const void *context, bool last)
{
	char *made = NULL;
	FILE *to = text_open(&made);
	struct brace brace;

	for (; brace_find(text, &brace); text = brace.text + brace.bytes) {
		const char *found = value(context, &brace);

		fwrite(text, 1, (size_t)(brace.text - text), to);
		if (found)
			fputs(found, to);
		else if (brace.doubled && last)
			fwrite(brace.text + 1, 1, brace.bytes - 2, to);
		else
			fwrite(brace.text, 1, brace.bytes, to);
	}
	fputs(text, to);
	fclose(to);
	return made;
}
