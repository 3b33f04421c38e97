/* Fuzzes bench/layers: the functions of an ELF file, of /proc/kallsyms, and the record of a sample.
 * The first byte chooses. */
#include "fuzz.h"
#include "perf.h"
#include "symbols.h"

static void check(struct symbols *s)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct symbol *found = symbols_find(s, s->list[i].start);

		assert(*s->list[i].name && s->list[i].owner);
		assert(!found || found->layer <= LAYER_NONE);
		assert(i == 0 || s->list[i - 1].start <= s->list[i].start);
	}
	symbols_free(s);
}

static void fuzz_sample(const uint8_t *data, size_t bytes)
{
	uint64_t *record = calloc(1, bytes + sizeof(*record)), sum = 0;
	struct perf_sample sample;

	assert(record);
	memcpy(record, data, bytes);
	if (perf_sample_parse(record, bytes, &sample)) {
		assert((const uint8_t *)(sample.chain + sample.count) <=
		       (const uint8_t *)record + bytes);
		for (unsigned i = 0; i < sample.count; i++)
			sum += sample.chain[i];
	}
	free(record);
	assert(sum || !sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct symbols symbols = {};
	char *text;

	if (bytes == 0)
		return 0;
	bytes--;
	if (data[0] % 3 == 0) {
		fuzz_sample(data + 1, bytes);
		return 0;
	}
	if (data[0] % 3 == 1) {
		symbols_elf(&symbols, data + 1, bytes, data[0] & 8, "[file]");
	} else {
		text = calloc(1, bytes + 1);
		assert(text);
		memcpy(text, data + 1, bytes);
		symbols_kernel(&symbols, text);
	}
	check(&symbols);
	return 0;
}
