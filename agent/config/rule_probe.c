#include "agent/config/rule_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/config/found.h"
#include "lib/base/array.h"
#include "lib/base/program_find.h"
#include "lib/probe/protocol.h"

/* In front of a file's name, where the machine's answers are. */
#define PEM_KEY "pem "
#define CERTIFICATE "-----BEGIN CERTIFICATE-----"

enum { PEM_BYTES = 1024 * 1024 };

static const char *const tls_keys[] = { "tls_ca", "tls_cert", "tls_key", "tls_server_name",
	"tls_verify" };

/* Of Debian and Alpine, Fedora, and others. */
static const char *const system_bundles[] = { "/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem" };

static int read_all(int fd, char *bytes, size_t size, size_t *ret_len)
{
	size_t len = 0;
	ssize_t got = 1;
	while (got > 0 && len < size) {
		got = read(fd, bytes + len, size - len);
		len += got > 0 ? (size_t)got : 0;
	}
	*ret_len = len;
	return got < 0 ? errno : len == size ? EFBIG : 0;
}

/* A config_finder. */
static int find_pem(const char *name, char **ret_value, struct err *err)
{
	const char *path = name + strlen(PEM_KEY);
	struct stat status;
	size_t len = 0;
	/* A FIFO must not hold us. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) != 0) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot read %s", path);
		if (fd >= 0) {
			close(fd);
		}
		return err->code;
	}
	char *bytes = allocate_zeroed(1, PEM_BYTES + 1);
	int error = S_ISREG(status.st_mode) ? read_all(fd, bytes, PEM_BYTES, &len) : EINVAL;
	close(fd);
	if (error) {
		err_set_errno(err, BERTH_FAILED, error, "cannot read %s", path);
	} else if (memchr(bytes, '\0', len) || !strstr(bytes, "-----BEGIN ")) {
		err_set(err, BERTH_FAILED,
			"%s is not in PEM: convert it with openssl x509 -inform DER", path);
	} else {
		*ret_value = allocate_text(bytes);
	}
	explicit_bzero(bytes, len);
	free(bytes);
	return err->code;
}

/* The text lives as long as the configuration; NULL, with an error: there is none. */
static const char *pem_of(struct config_builder *builder, const char *path, struct err *err)
{
	char *name = allocate_format(PEM_KEY "%s", path);
	char *copy = NULL;
	const char *text = NULL;
	if (config_found_get(name, find_pem, &copy, err) == 0) {
		explicit_bzero(copy, strlen(copy));
		free(copy);
		text = config_found_find(&builder->config->found, name)->value;
	}
	free(name);
	return text;
}

static const char *read_pem(
	struct config_builder *builder, const char *key, const char *path, const char *holds)
{
	struct err err = ERR_INIT;
	if (!*path) {
		return NULL;
	}
	const char *text = pem_of(builder, path, &err);
	if (text && !strstr(text, holds)) {
		err_set(&err, BERTH_FAILED, "%s has no \"%s\"", path, holds);
	} else if (text && strcmp(key, "tls_key") == 0 && strstr(text, "ENCRYPTED")) {
		err_set(&err, BERTH_FAILED,
			"%s has a passphrase: take it off with openssl pkey, and protect the file",
			path);
	}
	if (err.code) {
		config_fault(builder, key, "`%s`: %s", key, err.msg);
	}
	return text;
}

static const char *system_authorities(struct config_builder *builder)
{
	for (size_t i = 0; i < ARRAY_LEN(system_bundles); i++) {
		struct err ignored = ERR_INIT;
		const char *text = pem_of(builder, system_bundles[i], &ignored);
		if (text && strstr(text, CERTIFICATE)) {
			return text;
		}
	}
	config_fault(builder, NULL,
		"[check %s] needs `tls_ca`: this machine has no certificates of authorities "
		"(install ca-certificates), or `tls_verify = no`",
		builder->section->name);
	return NULL;
}

static void rule_files(struct config_builder *builder, struct config_check *check)
{
	bool has_cert = *check->tls_cert;
	if (has_cert != (*check->tls_key != '\0')) {
		config_fault(builder, has_cert ? "tls_cert" : "tls_key",
			"`tls_cert` and `tls_key` need one another");
	}
	check->tls_ca_pem = read_pem(builder, "tls_ca", check->tls_ca, CERTIFICATE);
	check->tls_cert_pem = read_pem(builder, "tls_cert", check->tls_cert, CERTIFICATE);
	check->tls_key_pem = read_pem(builder, "tls_key", check->tls_key, "PRIVATE KEY-----");
	if (!*check->tls_ca && check->tls_verify) {
		check->tls_ca_pem = system_authorities(builder);
	}
	if (*check->tls_ca && !check->tls_verify) {
		config_doubt(builder, "tls_ca", "has no effect with `tls_verify = no`");
	}
}

static void refuse_without_tls(struct config_builder *builder, const struct config_check *check)
{
	for (size_t i = 0; i < ARRAY_LEN(tls_keys); i++) {
		bool is_default = strcmp(tls_keys[i], "tls_verify") == 0 && check->tls_verify;
		if (*config_given(builder, tls_keys[i]) && !is_default) {
			config_fault(builder, tls_keys[i], "`%s` needs %s", tls_keys[i],
				check->type == CONFIG_CHECK_HTTP ? "an https:// target"
								 : "`tls = yes`");
		}
	}
}

void config_rule_probe(struct config_builder *builder, struct config_check *check)
{
	char path[PATH_MAX];
	if (check->tls) {
		rule_files(builder, check);
	} else {
		refuse_without_tls(builder, check);
	}
	if (builder->former || !config_check_is_probed(check)) {
		return;
	}
	program_find(path, sizeof(path), PROBE_PROGRAM);
	if (access(path, X_OK) != 0) {
		config_fault(builder, check->type == CONFIG_CHECK_HTTP ? "target" : "type",
			"%s needs %s, which is not there: install the package berth-probe",
			check->type == CONFIG_CHECK_HTTP ? "an https:// target" : "`type = grpc`",
			path);
	}
}
