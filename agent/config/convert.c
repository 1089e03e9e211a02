#include "agent/config/convert.h"

#include <jansson.h>

#include "agent/config/convert_write.h"

int convert_file(enum convert_from from, const char *path, FILE *out, struct err *err)
{
	json_error_t error;
	json_t *json = json_load_file(path, 0, &error);
	if (!json) {
		return err_set(err, BERTH_FAILED, "%s:%d: %s", path, error.line, error.text);
	}
	fprintf(out, "; Made from %s. Check it with berthd -t.\n", path);
	int code = from == CONVERT_REGISTRAR ? convert_registrar(json, out, err)
					     : convert_nerve(json, out, err);
	json_decref(json);
	return code ? err_wrap(err, "%s", path) : 0;
}
