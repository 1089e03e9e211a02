#include "tests/sim/configurations.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/sim/agent.h"
#include "tests/sim/answers.h"
#include "tests/sim/net.h"
#include "tests/sim/question.h"
#include "tests/sim/sim.h"

enum { PATH_BYTES = 300 };
enum { MOST_OPEN = 16, STRICT = 1, STRICT_WITH = 1 }; /* STRICT allows one container less */

bool configuration_allows(unsigned which, int container)
{
	return which != STRICT || container != STRICT_WITH;
}

/* ---- components ---- */

static void write_component(FILE *file, const char *name, const char *path, int number, char mark)
{
	fprintf(file,
		"[component %s]\npath = %s\nid = container_1408631738011_0001_01_00000%d\n"
		"damping = no\nattribute.mark = %c%d\n",
		name, path, number + 1, mark, number);
	fprintf(file,
		"[endpoint rest-%s]\ncomponent = %s\napi = http://example.org/rest\n"
		"protocol = http\naddress_type = host/port\naddress = 10.0.0.%d:80\n",
		name, name, number + 1);
	fprintf(file,
		"[check alive-%s]\ncomponent = %s\ntype = command\ncommand = /bin/true\n"
		"interval = 15s\ntimeout = 5s\nfall = 1\n",
		name, name);
}

/* The dialects of the component, and an import that follows all components. */
static void write_dialects(FILE *file, int number)
{
	fprintf(file,
		"[dialect members]\ncomponent = own\ntype = serverset\nendpoint = rest-own\n"
		"path = /discovery/web\n"
		"[dialect instances]\ncomponent = own\ntype = curator\nendpoint = rest-own\n"
		"base = /curator\nservice = web\ninstance_id = i%d\n"
		"[dialect cloud]\ncomponent = own\ntype = spring\nendpoint = rest-own\n"
		"service = web\ninstance_id = i%d\n"
		"[dialect smart]\ncomponent = own\ntype = nerve\nendpoint = rest-own\n"
		"path = /nerve/web\ninstance_id = i%d\n"
		"[dialect binder]\ncomponent = own\ntype = registrar\nendpoint = rest-own\n"
		"domain = web.example.org\nhost_name = i%d\nhost_type = load_balancer\n"
		"service = http\n"
		"[import discovered]\ntype = serverset\nfrom = /discovery/web\n"
		"as = /imported/web\n",
		number, number, number, number);
}

static void write_output(FILE *file, const char *folder, int number)
{
	fprintf(file,
		"[output web]\nfrom = /users/joe/web/prod/components\nformat = lines\n"
		"path = %s/%d/" SIM_OUTPUT "\nwhen_empty = write\nmin_instances = 1\n"
		"on_change = /bin/echo\n",
		folder, number);
}

/* ---- agents ---- */

static void write_agent(FILE *file, const char *folder, int number)
{
	fprintf(file,
		"[agent]\nsocket = %s/%d/sock\nstate_dir = %s/%d/state\nlog_level = "
		"${SIM_LOG:-error}\n",
		folder, number, folder, number);
	if (sim_has_bridge() && number != SIM_HOST) {
		fprintf(file, "[registry]\nurl = host:%s/%d/containers/c%d\n", folder, SIM_HOST,
			number);
	} else {
		fprintf(file,
			"[registry]\nurl = zookeeper://simulated:2181\nsession_timeout = %ds\n",
			NET_SESSION_TIMEOUT_MS / 1000);
	}
	fprintf(file, "[cache]\nconfirm = %dms\n", ANSWERS_CONFIRM_MS);
}

static void write_components(FILE *file, int number, char mark)
{
	char name[64];
	snprintf(name, sizeof(name), "/users/joe/web/prod/components/c%d", number);
	write_component(file, "own", name, number, mark);
	write_component(file, "shared", "/services/leader", number, mark);
}

static void write_dns(FILE *file, int number)
{
	const struct sockaddr_in address = question_address(number);
	char host[INET_ADDRSTRLEN];
	fprintf(file, "[dns]\nlisten = %s:%d\n",
		inet_ntop(AF_INET, &address.sin_addr, host, sizeof(host)), ntohs(address.sin_port));
}

static void write_alone(FILE *file, const char *folder, int number, char mark)
{
	write_dns(file, number);
	write_components(file, number, mark);
	write_dialects(file, number);
	write_output(file, folder, number);
}

static void write_contained(FILE *file, const char *folder, int number, char mark)
{
	write_components(file, number, mark);
	write_component(file, "forbidden", SIM_FORBIDDEN, number, mark);
	write_output(file, folder, number);
}

/* Each container has a pinned attribute of its own. */
static void write_host(FILE *file, const char *folder, unsigned which)
{
	fprintf(file, "[bridge]\ncontainers = %s/%d/containers\nlinger = %ds\n", folder, SIM_HOST,
		which == STRICT ? 3 : 0);
	for (int number = 0; number < SIM_AGENTS; number++) {
		fprintf(file, "[container c%d]\nallow = /services/leader%s\nattribute.host = h%d\n",
			number,
			configuration_allows(which, number) ? ", /users/joe/web/prod/components/*"
							    : "",
			number);
	}
}

static void write_configuration(const char *folder, int number, unsigned which)
{
	char path[PATH_BYTES];
	char mark = (char)('a' + which);
	snprintf(path, sizeof(path), "%s/%d/%u.ini", folder, number, which);
	FILE *file = fopen(path, "w");
	if (!file) {
		perror(path);
		exit(2);
	}
	write_agent(file, folder, number);
	if (number == SIM_HOST) {
		write_host(file, folder, which);
	} else if (sim_has_bridge()) {
		write_contained(file, folder, number, mark);
	} else {
		write_alone(file, folder, number, mark);
	}
	if (which == CONFIGURATION_BAD) {
		fprintf(file, "[check alive-own]\ninterval = often\n");
	}
	fclose(file);
}

void configurations_make(const char *folder)
{
	for (int number = 0; number < sim_agent_count(); number++) {
		char path[PATH_BYTES];
		snprintf(path, sizeof(path), "%s/%d", folder, number);
		mkdir(path, 0755);
		for (unsigned which = 0; which <= CONFIGURATION_BAD; which++) {
			write_configuration(folder, number, which);
		}
	}
}

/* ---- containers ---- */

void containers_make(const char *folder, int number)
{
	char path[PATH_BYTES];
	snprintf(path, sizeof(path), "%s/%d/containers", folder, SIM_HOST);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%d/containers/c%d", folder, SIM_HOST, number);
	mkdir(path, 0755);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	(void)status;
	(void)kind;
	(void)place;
	remove(path);
	return 0;
}

void containers_remove(const char *folder, int number)
{
	char path[PATH_BYTES];
	snprintf(path, sizeof(path), "%s/%d/containers/c%d", folder, SIM_HOST, number);
	nftw(path, remove_entry, MOST_OPEN, FTW_DEPTH | FTW_PHYS);
}
