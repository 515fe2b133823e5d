/* Preloaded into gnutls-cli: it asks for an unbuffered stdout and then writes byte by byte, a system call each, which
 * takes minutes for the 100 MB it has to echo. It flushes after every record, so that buffering delays nothing. */
#include <stdio.h>

void setbuf(FILE *stream, char *buffer)
{
    (void)stream;
    (void)buffer;
}

int setvbuf(FILE *stream, char *buffer, int mode, size_t size)
{
    (void)stream;
    (void)buffer;
    (void)mode;
    (void)size;
    return 0;
}
