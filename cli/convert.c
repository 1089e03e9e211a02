#include "cli/convert.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/convert_write.h"

/* Skips a byte order mark, which jansson refuses; no JSON begins with its first byte. */
static json_t *load(const char *path, json_error_t *error)
{
	FILE *file = fopen(path, "re");
	if (!file) {
		return json_load_file(path, 0, error); /* it says why */
	}
	int first = getc(file);
	if (first == 0xef) {
		(void)getc(file);
		(void)getc(file);
	} else {
		(void)ungetc(first, file);
	}
	json_t *json = json_loadf(file, 0, error);
	fclose(file);
	return json;
}

int convert_file(enum convert_from from, const char *path, FILE *out, struct err *err)
{
	json_error_t error;
	json_t *json = load(path, &error);
	if (!json && error.line < 0) {
		return err_set(err, BERTH_FAILED, "%s", error.text);
	}
	if (!json) {
		return err_set(err, BERTH_FAILED, "%s:%d: %s", path, error.line, error.text);
	}
	fprintf(out, "; Made from %s. Check it with berthd -t.\n", path);
	int code = from == CONVERT_REGISTRAR ? convert_registrar(json, out, err)
		: from == CONVERT_NERVE      ? convert_nerve(json, out, err)
					     : convert_consul(json, out, err);
	json_decref(json);
	return code ? err_wrap(err, "%s", path) : 0;
}

int verb_convert(struct cli *cli)
{
	static const char *const programs[] = { [CONVERT_REGISTRAR] = "registrar",
		[CONVERT_NERVE] = "nerve",
		[CONVERT_CONSUL] = "consul" };
	const char *name = cli->options.operands[0];
	unsigned from = 0;
	while (from < 3 && strcmp(name, programs[from]) != 0) {
		from++;
	}
	if (from == 3) {
		return output_usage(
			"convert: the program is registrar, nerve or consul, not %s", name);
	}
	struct err err = ERR_INIT;
	if (convert_file((enum convert_from)from, cli->options.operands[1], stdout, &err)) {
		return output_error("%s", err.msg);
	}
	return 0;
}
