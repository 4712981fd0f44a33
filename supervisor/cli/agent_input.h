#ifndef BAILIFF_CLI_AGENT_INPUT_H
#define BAILIFF_CLI_AGENT_INPUT_H

/* The input of a turn that `agent` submits: the prompt and the images of --image. */

struct buf;
struct cli;
struct jw;

/* Reads the files of --image, with the user's rights, as parts of an input. 0, or the exit status. */
int agent_images_read(struct cli *c, struct buf *ret_parts);
/* The member `input`. */
void agent_input_write(const char *prompt, const struct buf *image_parts, struct jw *w);

#endif
