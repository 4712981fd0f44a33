#!/bin/sh
# in_root.sh OLD.deb NEW.deb [FLEET.deb]: the life of the package in a clean root filesystem where systemd does not run: install, use, upgrade under
# running commands, remove, install again, purge. Prints TAP. tests/package/run starts it; nothing here is of the host.
# shellcheck disable=SC2015,SC2016,SC2317 # functions and texts are run by check
set -u

old=$1
new=$2
fleet=${3:-}
number=0
daemon=
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
unset BAILIFF_HOME XDG_RUNTIME_DIR XDG_STATE_HOME XDG_CONFIG_HOME

check() { # name command…
	name=$1
	shift
	number=$((number + 1))
	if "$@" >/tmp/out 2>&1; then
		echo "ok $number - $name"
	else
		echo "not ok $number - $name"
		sed 's/^/# /' /tmp/out
		failed=1
	fi
}
failed=0
same() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
absent() { for path; do [ ! -e "$path" ] && [ ! -L "$path" ] || { echo "$path exists"; return 1; }; done; }
until_true() { # command…: at most a minute
	tries=0
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || { echo "timed out waiting for: $*"; return 1; }
		sleep 0.1
	done
}
version_of() { dpkg-deb -f "$1" Version; }
start_daemon() {
	bailiffd --foreground >>/var/log/bailiffd.log 2>&1 &
	daemon=$!
	until_true test -S /run/bailiff/control.sock && until_true bailiff call get_health
}
running_version() { bailiff call get_health | tr ',' '\n' | sed -n 's/.*"version": *"\([^"]*\)".*/\1/p' | head -n 1; }
as_user() { (cd /home/tester/project && setpriv --reuid=1500 --regid=1500 --clear-groups env HOME=/home/tester "$@"); }

# Nothing is started by packages in here.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
useradd -m -u 1500 tester
install -d -o 1500 -g 1500 /home/tester/project
mkdir -p /srv/work
cd /srv/work || exit 1

check "installs" apt-get install -y -qq --no-install-recommends "$old"
check "installed files are as shipped" dpkg -V bailiff
check "the account has the runtime's number" same "$(id -u bailiff)" 64613
check "folders are there" same "$(stat -c '%n %a %U' /var/lib/bailiff /run/bailiff | tr '\n' ' ')" "/var/lib/bailiff 700 root /run/bailiff 711 root "
check "policy, configuration and profile are conffiles" same "$(dpkg-query -W -f '${Conffiles}' bailiff | grep -c .)" 3
check "the unit is enabled" test -L /etc/systemd/system/multi-user.target.wants/bailiff.service
check "no user's unit is enabled" absent /etc/systemd/user/default.target.wants/bailiff.service
check "unit files are correct" systemd-analyze verify --man=no /lib/systemd/system/bailiff.service
check "user unit files are correct" env XDG_RUNTIME_DIR=/tmp systemd-analyze verify --man=no --user /usr/lib/systemd/user/bailiff.service /usr/lib/systemd/user/bailiff-serve.service
check "starts" start_daemon
check "root's command runs" same "$(bailiff run -- sh -c 'echo hello')" hello
check "a user's command runs as that user" same "$(as_user bailiff run -- id -u)" 1500
check "a user's own daemon runs commands" same "$(as_user env BAILIFF_HOME=/home/tester/own bailiff run -- echo own)" own

without_fleet() { bailiff fleet list --fleet nats://127.0.0.1:1 2>&1 | grep -q 'package bailiff-fleet'; }
with_fleet() { bailiff fleet list --fleet nats://127.0.0.1:1 >/tmp/fleet 2>&1 || ! grep -q 'package bailiff-fleet' /tmp/fleet; }
check "the fleet's package is named" without_fleet
if [ -n "$fleet" ]; then
	check "the fleet's package installs" apt-get install -y -qq --no-install-recommends "$fleet"
	check "the fleet's programs run" with_fleet
	check "the fleet's package can be removed" apt-get remove -y -qq bailiff-fleet
	check "the rest still works" same "$(bailiff run -- echo rest)" rest
fi

# Two commands that end only after the upgrade, one of them in a foreground client of the old version.
waits='echo before; while [ ! -e go ]; do sleep 0.1; done; echo after; exit 7'
background=$(bailiff run -d -- sh -c "$waits")
bailiff run -- sh -c "$waits" >foreground 2>&1 &
client=$!
check "commands run" until_true grep -q before foreground
guard=$(cat /var/lib/bailiff/bailiffd.pid)
echo '{"permissions": {"defaultMode": "default"}, "note": "edited"}' >/tmp/policy
sed 's/, "note": "edited"//' /tmp/policy >/etc/bailiff/policy.json
sum=$(md5sum </etc/bailiff/policy.json)
check "the old version answers" same "$(running_version)" "$(version_of "$old")"
check "upgrades under running commands" apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "$new"
check "the daemon is the same process" same "$(cat /var/lib/bailiff/bailiffd.pid) $daemon" "$guard $guard"
until_true bailiff call get_health
check "the new version answers" same "$(running_version)" "$(version_of "$new")"
check "an edited policy is kept" same "$(md5sum </etc/bailiff/policy.json)" "$sum"
touch go
wait "$client"
check "the client of the foreground command ends with its status" same "$?" 7
check "the foreground command's output is whole" same "$(cat foreground)" "$(printf 'before\nafter')"
bailiff wait "$background" >/tmp/wait 2>&1
check "the background command ends with its status" same "$?" 7
check "the background command's output is whole" same "$(bailiff logs "$background")" "$(printf 'before\nafter')"
check "the store is intact" bailiff store verify
check "the new version runs commands" same "$(bailiff run -- echo new)" new

rm -f go
last=$(bailiff run -d -- sh -c "$waits")
check "removes under a running command" apt-get remove -y -qq bailiff
wait "$daemon"
check "the daemon ended in order" same "$?" 0
check "programs are gone" absent /usr/sbin/bailiffd /usr/bin/bailiff /usr/libexec/bailiff /lib/systemd/system/bailiff.service
check "the log and an edited policy are kept" test -e /var/lib/bailiff/store/data.mdb -a -e /etc/bailiff/policy.json
check "installs again" apt-get install -y -qq --no-install-recommends "$new"
check "starts again" start_daemon
check "history is there" same "$(bailiff logs "$background")" "$(printf 'before\nafter')"
check "the end of the command that ran is recorded" sh -c "bailiff events --process $last --type 'process.*' | grep -q terminated"
check "purges" apt-get purge -y -qq bailiff
wait "$daemon"
check "nothing is left of the system's daemon" absent /var/lib/bailiff /run/bailiff /etc/bailiff /etc/apparmor.d/bailiff /etc/apparmor.d/disable/bailiff
check "users' own stores are kept" test -e /home/tester/own/store/data.mdb
check "links of units are gone" absent /etc/systemd/system/multi-user.target.wants/bailiff.service
echo "1..$number"
exit "$failed"
