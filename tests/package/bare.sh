#!/bin/sh
# bare.sh DIR: the static programs in DIR, in a root filesystem that has busybox and nothing else. Prints TAP; tests/package/run starts it.
# shellcheck disable=SC2016,SC2317 # functions and texts are run by check
set -u

programs=$1
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root TMPDIR=/tmp
number=0
failed=0
check() { # name expected command…
	number=$((number + 1))
	name=$1
	expected=$2
	shift 2
	actual=$("$@" 2>/tmp/stderr </dev/null)
	if [ "$actual" = "$expected" ]; then
		echo "ok $number - $name"
	else
		echo "not ok $number - $name: '$actual' is not '$expected'"
		sed 's/^/# /' /tmp/stderr
		failed=1
	fi
}
first_word() { "$@" | { read -r word _ && echo "$word"; }; }

check "there is no C library here" "" sh -c 'ls /lib /usr /etc 2>/dev/null'
cd /srv/work || exit 1
check "says its version" bailiff first_word "$programs/bin/bailiff" version
check "root's command runs" hello "$programs/bin/bailiff" run -- /bin/busybox echo hello
check "a command is in a pid namespace of its own" different sh -c "[ \$($programs/bin/bailiff run -- sh -c 'readlink /proc/self/ns/pid') != \$(readlink /proc/self/ns/pid) ] && echo different"
check "exit status" 7 sh -c "$programs/bin/bailiff run -- sh -c 'exit 7'; echo \$?"
check "works from another folder" moved sh -c "mv $programs /moved && BAILIFF_HOME=/root/moved /moved/bin/bailiff run -- echo moved"
check "stays in its workspace" refused sh -c '/moved/bin/bailiff run -- sh -c "echo x >/bin/escape" 2>/dev/null || echo refused'
check "the exporter that is left out is named" 1 sh -c 'mkdir /root/home; (OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 /moved/sbin/bailiffd --foreground --home /root/home 2>/root/log & echo $! >/root/pid); until grep -q bailiff-otlp /root/log; do sleep 0.1; done; kill $(cat /root/pid); grep -c "no bailiff-otlp" /root/log'
mkdir /etc
echo 'tester:x:1500:1500::/srv/tester:/bin/sh' >/etc/passwd
mkdir -p /srv/tester
chown 1500:1500 /srv/tester
check "a plain user's command runs" 1500 su - tester -c 'mkdir project && cd project && /moved/bin/bailiff run -- id -u'
echo "1..$number"
exit "$failed"
