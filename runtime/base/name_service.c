/*
 * Linked into the programs of the static tarball only (MODE=static, see the Makefile).
 *
 * A static program with glibc still loads shared objects if /etc/nsswitch.conf names a service that is not built into
 * the C library (systemd, sss, ldap). They belong to the host's C library, and a different version crashes the program.
 * So these programs use only files and, for host names, DNS, which are built in.
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
