/*
 * Linked into the programs of the static tarball only (MODE=static, see the Makefile).
 *
 * A static program of glibc still loads shared objects where /etc/nsswitch.conf names a service that is not built into
 * the C library (systemd, sss, ldap), and those belong to the host's C library: another version of it ends the program.
 * So these programs look into the files, and ask DNS for host names; both are built in.
 */

#include <nss.h>

static __attribute__((constructor)) void use_builtin_services(void)
{
	__nss_configure_lookup("passwd", "files");
	__nss_configure_lookup("group", "files");
	__nss_configure_lookup("hosts", "files dns");
	__nss_configure_lookup("services", "files");
	__nss_configure_lookup("networks", "files");
	__nss_configure_lookup("protocols", "files");
}
