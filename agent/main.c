/* berthd. */
#include <fcntl.h>
#include <unistd.h>

#include "agent/agent.h"

/*
 * A caller may have closed them: a file of the agent's would get such a number, and log lines would
 * go into it.
 */
static void open_standard_files(void)
{
	int file = open("/dev/null", O_RDWR);
	while (file >= 0 && file <= STDERR_FILENO) {
		file = open("/dev/null", O_RDWR);
	}
	close(file);
}

int main(int argc, char **argv)
{
	open_standard_files();
	return agent_main(argc, argv);
}
