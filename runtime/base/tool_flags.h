#ifndef BAILIFF_TOOL_FLAGS_H
#define BAILIFF_TOOL_FLAGS_H

/* What tools.def says about a tool, for the engine and for MCP clients. */
enum tool_flags {
	TOOL_READS = 1,    /* it changes nothing */
	TOOL_PARALLEL = 2, /* it may run in parallel with other read-only tools that have this flag */
	TOOL_DESTROYS = 4, /* it may cause loss of data that cannot be restored */
	TOOL_REPEATABLE = 8,
	TOOL_OPEN_WORLD = 16,
	TOOL_IN_FOLDER = 32 /* it works in the directory of the MCP client */
};

#define TOOL_SCHEMA(...) #__VA_ARGS__

#endif
