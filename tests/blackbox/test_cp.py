"""bailiff cp: files into and out of a session sandbox, and nothing else, however its commands manipulate both sides."""

import json
import os
import signal
import stat
import subprocess

import harness


def test_files_and_trees_are_copied_both_ways(home):
    home.cli("sandbox", "create", "--name", "box")
    outside = os.path.join(home.dir, "outside")
    os.makedirs(os.path.join(outside, "tree/sub"))
    data = os.urandom(300_000)
    with open(os.path.join(outside, "tree/sub/data"), "wb") as f:
        f.write(data)
    os.chmod(f.name, 0o750)
    os.symlink("data", os.path.join(outside, "tree/sub/link"))
    home.cli("cp", f.name, "box:/tmp")
    home.cli("cp", f.name, "box:/tmp/renamed")
    home.cli("cp", os.path.join(outside, "tree"), "box:/tmp")
    home.cli("cp", os.path.join(outside, "tree"), "box:/tmp/again")
    assert home.cli("exec", "box", "stat", "-c", "%a", "/tmp/data", "/tmp/renamed").text == "750\n750\n"
    assert home.cli("exec", "box", "cat", "/tmp/tree/sub/link").out == data and home.cli("exec", "box", "readlink", "/tmp/again/sub/link").text == "data\n"
    home.cli("cp", "box:/tmp/renamed", outside)
    home.cli("cp", "box:/tmp/renamed", os.path.join(outside, "named"))
    home.cli("cp", "box:/tmp/again", os.path.join(outside, "back"))
    for name in ("renamed", "named", "back/sub/data", "back/sub/link"):
        with open(os.path.join(outside, name), "rb") as f:
            assert f.read() == data, name
    assert os.stat(os.path.join(outside, "named")).st_mode & 0o7777 == 0o750 and os.path.islink(os.path.join(outside, "back/sub/link"))
    os.mkfifo(os.path.join(outside, "pipe"))
    assert b"neither a file nor a directory" in home.cli("cp", "box:/tmp/renamed", os.path.join(outside, "pipe"), status=1).err, "a copy would replace it"
    assert stat.S_ISFIFO(os.stat(os.path.join(outside, "pipe")).st_mode)
    os.unlink(os.path.join(outside, "pipe"))
    for wrong in (["box:/nowhere", outside], [os.path.join(outside, "nowhere"), "box:/tmp"], ["other:/tmp", outside], ["box:/dev/null", outside],
                  [os.path.join(outside, "named"), "box:/usr/named"]):
        assert home.cli("cp", *wrong, status=1).err, wrong
    assert home.cli("cp", outside, outside, status=2).err and home.cli("cp", "box:/a", "box:/b", status=2).err
    assert sorted(os.listdir(outside)) == ["back", "named", "renamed", "tree"], "nothing is left of what failed"


def test_long_files_and_long_names_are_copied_whole():
    """Neither the limit on output of the configuration nor a temporary name may be in the way."""
    with harness.Home(config={"defaultOutputBytes": 100_000}) as home:
        home.cli("sandbox", "create", "--name", "box")
        target, name, data = os.path.join(home.dir, "target"), "n" * 255, os.urandom(1_000_000)
        os.makedirs(target)
        home.cli("exec", "box", "sh", "-c", 'mkdir /tmp/tree && cat > "/tmp/tree/$1"', "sh", name, stdin=data)
        home.cli("cp", f"box:/tmp/tree/{name}", target)
        home.cli("cp", "box:/tmp/tree", target)
        for copy in (name, f"tree/{name}"):
            with open(os.path.join(target, copy), "rb") as f:
                assert f.read() == data, copy
        assert sorted(os.listdir(target)) == [name, "tree"]


def test_a_copy_that_is_terminated_leaves_nothing(home):
    home.cli("sandbox", "create", "--name", "box")
    home.cli("exec", "box", "truncate", "-s", "20G", "/tmp/long")
    target = os.path.join(home.dir, "target")
    os.makedirs(target)
    copy = home.cli_start("cp", "box:/tmp/long", target)
    harness.until("the copy has begun", lambda: [p for p in home.cli("ps", "--json").json if p["command"][0] == "cat"])
    copy.send_signal(signal.SIGTERM)
    assert copy.wait(harness.PATIENCE) == 128 + signal.SIGTERM
    assert not os.listdir(target)
    harness.until("its command has ended, too", lambda: not home.cli("ps", "--json").json)


def test_names_that_are_not_utf8_are_rejected_or_part_of_a_directory(home):
    home.cli("sandbox", "create", "--name", "box")
    folder = os.fsencode(os.path.join(home.dir, "folder"))
    os.makedirs(folder)
    with open(os.path.join(folder, b"\xff"), "wb"):
        pass
    for words in ((os.path.join(folder, b"\xff"), "box:/tmp"), (b"box:/tmp/\xff", folder)):
        done = subprocess.run([harness.CLI, "cp", *words], env=harness.environment(BAILIFF_HOME=home.dir), capture_output=True)
        assert done.returncode == 1 and done.stderr.startswith(b"bailiff: cp: ") and b"is not UTF-8" in done.stderr, (words, done.stderr)
    home.cli("cp", os.fsdecode(folder), "box:/tmp")
    assert home.cli("exec", "box", "ls", "/tmp/folder").out == b"\xff\n"


def test_copying_does_not_follow_links_that_a_command_made(home):
    """The workspace is writable inside: neither a link there nor an archive from the sandbox may redirect a copy."""
    outside = os.path.join(home.dir, "outside")
    os.makedirs(outside)
    with open(os.path.join(outside, "secret"), "w") as f:
        f.write("secret\n")
    os.makedirs(os.path.join(outside, "deep"))
    os.symlink(home.work, os.path.join(home.dir, "alias"))
    home.cli("sandbox", "create", "--name", "box")
    home.cli("exec", "box", "sh", "-c", 'mkdir -p /tmp/report/new && echo x | tee /tmp/report/key > /tmp/report/new/key; mkdir honest hostile; '
             'ln -s "$1" report; ln -s "$1" honest/new; ln -s "$1" hostile/new; ln -s "$1/secret" file', "sh", outside)
    at = {"cwd": home.work}
    for words in (["box:/tmp/report", "."], ["box:/tmp/report", "report"], ["box:/tmp/report/key", "report/"], ["box:/tmp/report/key", "honest/new/key"],
                  ["box:/tmp/report", home.work], ["box:/tmp/report/key", os.path.join(home.work, "report")],
                  ["box:/tmp/report/key", os.path.join(home.work, "honest/new/key")], ["box:/tmp/report/key", os.path.join(home.work, "hostile/new/deep/key")],
                  [os.path.join(home.work, "report/secret"), "box:/tmp"], [os.path.join(home.dir, "alias/report/secret"), "box:/tmp"],
                  ["file", "box:/tmp"], ["report", "box:/tmp"], ["report/secret", "box:/tmp"], [os.path.join(home.work, "file"), "box:/tmp"]):
        assert b"symbolic link" in home.cli("cp", *words, status=1, **at).err, words
    home.cli("exec", "box", "sh", "-c", "mv honest honest.old; mkdir honest; mv honest.old honest/report")
    home.cli("cp", "box:/tmp/report", "honest", **at)
    assert open(os.path.join(home.work, "honest/report/new/key")).read() == "x\n"
    # An archive with a path through the link: the sandbox's own tar does not write one, but a command can replace tar.
    home.cli("exec", "box", "sh", "-c", r'''mkdir -p /tmp/a/new && echo x > /tmp/a/new/key && echo x > /tmp/a/new/secret && ln /tmp/a/new/secret /tmp/a/stolen &&
        rm -rf /tmp/report && mv hostile report.new && rm report && mv report.new report && mkdir /tmp/report &&
        tar -C /tmp/a --no-recursion -cf /tmp/hostile.tar new/key new/secret stolen''')
    with open(os.path.join(home.dir, "hostile.tar"), "wb") as f:
        f.write(home.cli("exec", "box", "cat", "/tmp/hostile.tar").out)
    shim = os.path.join(home.dir, "bin")     # a tar that prints the hostile archive whatever its arguments are
    os.makedirs(shim)
    with open(os.path.join(shim, "tar"), "w") as script:
        script.write(f'#!/bin/sh\nexec /usr/bin/env PATH={harness.PATH} tar "$@" < {f.name}\n')
    os.chmod(script.name, 0o755)
    failed = home.cli("cp", "box:/tmp/report", ".", status=1, env={"PATH": f"{shim}:{harness.PATH}"}, **at)
    assert failed.err.count(b"ermission denied") + failed.err.count(b"cross-device") >= 2, failed.err
    assert sorted(os.listdir(outside)) == ["deep", "secret"] and not os.listdir(os.path.join(outside, "deep")) and os.stat(os.path.join(outside, "secret")).st_nlink == 1, os.listdir(outside)
    assert not os.path.exists(os.path.join(home.work, "report/stolen"))


def test_autorun_files_in_a_directory_that_is_copied_out_are_reported(home):
    for name in (".git/hooks", "sub"):
        os.makedirs(os.path.join(home.work, name))
    home.cli("sandbox", "create", "--name", "box", cwd=home.work)
    home.cli("exec", "box", "sh", "-c", "mkdir -p /tmp/a/.git/hooks /tmp/a/sub /tmp/b && echo x >/tmp/a/.git/hooks/pre-commit && echo x >/tmp/a/sub/.envrc && echo x >/tmp/b/file")
    assert not home.cli("cp", "box:/tmp/b/.", ".", cwd=home.work).err
    done = home.cli("cp", "box:/tmp/a/.", ".", cwd=home.work)
    assert f"git executes outside the sandbox: added {home.work}/.git/hooks/pre-commit" in done.err.decode() and f"direnv executes outside the sandbox: added {home.work}/sub/.envrc" in done.err.decode(), done.err
    home.cli("exec", "box", "sh", "-c", "echo y >>/tmp/a/sub/.envrc")
    done = home.cli("cp", "--json", "box:/tmp/a/.", ".", cwd=home.work)
    report = json.loads(done.out)["autorun"]
    assert not done.err and report == {"changed": 1, "files": [{"path": f"{home.work}/sub/.envrc", "change": "modified", "program": "direnv"}], "examined": "all"}, (done.err, report)
    assert "autorun" not in json.loads(home.cli("cp", "--json", "box:/tmp/a/.", ".", cwd=home.work).out)


def test_what_cp_writes_is_not_reported_as_a_change_of_the_command_that_reads(home):
    """The first folder of the archive is there long before tar in the sandbox has read the second one."""
    home.cli("sandbox", "create", "--name", "box", cwd=home.work)
    home.cli("exec", "box", "sh", "-c", "for n in 1 2; do mkdir -p /tmp/a/$n && echo x >/tmp/a/$n/.envrc && head -c 4000000 /dev/zero >/tmp/a/$n/data; done")
    done = home.cli("cp", "box:/tmp/a/.", ".", cwd=home.work)
    assert done.err.count(b"this command changed") == 1 and done.err.count(b"/.envrc") == 2, done.err
    os.makedirs(os.path.join(home.work, ".githooks"))
    assert not home.cli("cp", "box:/tmp/a/1/data", ".githooks/data", cwd=home.work).err and os.path.getsize(os.path.join(home.work, ".githooks/data")) == 4_000_000
    assert sorted(os.listdir(home.work)) == [".githooks", "1", "2"] and os.listdir(os.path.join(home.work, ".githooks")) == ["data"], "nothing temporary is left"
    reported = home.cli("events", "--type", "sandbox.autorun.changed", "--json").text
    assert not reported, reported


def test_a_dash_is_standard_input_or_output(home):
    home.cli("sandbox", "create", "--name", "box", cwd=home.work)
    data = os.urandom(200_000)
    assert home.cli("cp", "-", "box:/tmp/data", stdin=data, cwd=home.work).out == b""
    assert home.cli("cp", "box:/tmp/data", "-", cwd=home.work).out == data and not os.listdir(home.work)
    home.cli("cp", "box:/tmp/data", "./-", cwd=home.work)
    assert os.listdir(home.work) == ["-"]
    assert home.cli("cp", "box:-", "-", cwd=home.work).out == data, "a file of that name in the sandbox"
    for words, status, text in ((["box:/tmp", "-"], 1, "-- tar -C /tmp -cf - ."), (["-", "box:/tmp"], 1, ":/tmp/NAME"),
                                (["box:/nowhere", "-"], 1, "No such file"), (["--json", "box:/tmp/data", "-"], 2, "leave out one of them"), (["-", "-"], 2, "SANDBOX:PATH")):
        failed = home.cli("cp", *words, status=status, cwd=home.work, stdin=b"x")
        assert text in failed.err.decode() and not failed.out, (words, failed.out, failed.err)


if __name__ == "__main__":
    harness.main(globals())
