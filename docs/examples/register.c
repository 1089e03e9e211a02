/*
 * Registers a service for as long as it runs, resolves it, and lists its siblings. Usage: register
 * REGISTRY-URL PATH
 */
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD                                                                                           \
	"{\"type\":\"JSONServiceRecord\",\"description\":\"an example\",\"internal\":[],\"external\":[{" \
	"\"api\":\"http://example.org/v1\",\"protocol\":\"REST\",\"addressType\":\"uri\","               \
	"\"addresses\":[{\"uri\":\"http://localhost:8080/\"}]}]}"

int main(int argc, char **argv)
{
	struct berth *berth = NULL;
	struct berth_failure failure;
	struct berth_endpoints found;
	struct berth_paths siblings;
	char parent[1024] = "";
	if (argc != 3 || berth_open(&berth, argv[1], NULL, &failure) != 0 ||
		berth_bind(berth, argv[2], RECORD, BERTH_BIND_EPHEMERAL | BERTH_BIND_PARENTS,
			&failure) != 0 ||
		berth_endpoints(berth, argv[2], NULL, &found, &failure) != 0) {
		fprintf(stderr, "%s\n", argc == 3 ? failure.message : "register REGISTRY-URL PATH");
		berth_close(berth);
		return EXIT_FAILURE;
	}
	printf("%s is at %s\n", argv[2], found.items[0].address);
	berth_endpoints_finish(&found);
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(argv[2], '/') - argv[2]), argv[2]);
	if (berth_list(berth, *parent ? parent : "/", &siblings, &failure) == 0) {
		for (size_t i = 0; i < siblings.count; i++) {
			puts(siblings.items[i]);
		}
		berth_paths_finish(&siblings);
	}
	berth_close(berth);
	return EXIT_SUCCESS;
}
