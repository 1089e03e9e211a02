#include "lib/registry/zookeeper/worker/cage.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/array.h"
#include "lib/base/text.h"

enum {
	MEMORY_MIB = 1024, /* stacks of threads reserve most of it */
	CERTIFICATE_FILES = 3,
	PATH_BYTES = 4096,
	PORTS_MAX = 64
};

/* Where OpenSSL looks for its configuration and for certificate authorities. */
static const char *const tls_directories[] = { "/etc/ssl", "/etc/pki", "/usr/lib/ssl",
	"/usr/share/ca-certificates" };

enum { TLS_DIRECTORIES = ARRAY_LEN(tls_directories) };

struct files {
	char paths[CERTIFICATE_FILES][PATH_BYTES];
	const char *list[CERTIFICATE_FILES + TLS_DIRECTORIES + 1];
};

static void list_files(struct files *files, const char *certificates)
{
	const char *at = certificates;
	size_t count = 0;
	/* A passphrase follows, which is not a path. */
	for (int i = 0; i < CERTIFICATE_FILES && *at; i++) {
		size_t len = strcspn(at, ",");
		if (len > 0 && len < PATH_BYTES) {
			text_printf(files->paths[i], PATH_BYTES, "%.*s", (int)len, at);
			files->list[count++] = files->paths[i];
		}
		at += len + (at[len] == ',');
	}
	for (size_t i = 0; i < TLS_DIRECTORIES; i++) {
		files->list[count++] = tls_directories[i];
	}
	files->list[count] = NULL;
}

/* Those of "127.0.0.1:2181,::1:2182"; returns their number. */
static size_t list_ports(unsigned ports[PORTS_MAX], const char *servers)
{
	size_t count = 0;
	for (const char *at = servers; *at && count < PORTS_MAX;) {
		size_t len = strcspn(at, ",");
		const char *colon = memrchr(at, ':', len);
		ports[count++] = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
		at += len + (at[len] == ',');
	}
	return count;
}

void zk_worker_cage(const char *certificates, const char *servers, char out[SANDBOX_WORDS_BYTES])
{
	static struct files files;
	unsigned ports[PORTS_MAX];
	struct sandbox_profile profile = { .rights = SANDBOX_CONNECT_TCP | SANDBOX_THREADS,
		.ports = ports,
		.port_count = list_ports(ports, servers),
		.memory_mib = MEMORY_MIB };
	if (*certificates) {
		list_files(&files, certificates);
		profile.rights |= SANDBOX_READ_FILES;
		profile.files = files.list;
	}
	tzset(); /* the library logs in local time, and libc reads the zone's file once */
	sandbox_enter(&profile, out);
}
