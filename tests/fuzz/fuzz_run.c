/* Fuzzes config/config_run.c, which reads the words of `nbserved --run`: they are refused, or are a
 * text that can be read as a file: good, or with errors that name its lines. */
#include "config.h"
#include "config_run.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *spec = strndup((const char *)data, bytes), *text;
	struct config_errors errors = { 0 };
	struct config *config = NULL;
	struct reason reason = { "" };

	assert(spec);
	if (config_run_text(&spec, 1, "", &text, &reason) < 0) {
		assert(reason.text[0]);
		free(spec);
		return 0;
	}
	config_load_text("--run", text, strlen(text), &config, &errors);
	assert(!config == (errors.count > 0));
	config_errors_free(&errors);
	config_free(config);
	free(text);
	free(spec);
	return 0;
}
