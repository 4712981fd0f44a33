"""Prefix rules decide as Codex does, whose convention they are: a stored table, which is compared with Codex if it is installed."""

import json
import os
import subprocess
import tempfile

import harness
import npm
from harness import Skip
from test_policy import Policed

# pattern, decision, justification: as prefixRules here, and as prefix_rule(…) for codex.
RULES = [
    (["git", ["push", "fetch"]], "prompt", "talks to the server"),
    (["git", "push", ["--force", "-f"]], "forbidden", "rewrites history"),
    (["git", "commit"], "allow", None),
    (["git", "commit", "--amend"], "prompt", None),
    ([["npm", "pnpm"], "run", ["build", "deploy"]], "allow", None),
    (["npm", "run", "deploy"], "prompt", None),
    (["npm", "run", "deploy", "--prod"], "forbidden", "by the pipeline only"),
    (["cargo"], "allow", None),
    (["cargo", "publish"], "prompt", None),
    (["cargo", "publish", "--no-verify"], "forbidden", None),
    (["docker"], "prompt", None),
    (["docker", ["run", "exec"], "--privileged"], "forbidden", None),
    (["docker", "compose", "up"], "allow", None),
    (["rm"], "forbidden", None),
    (["touch"], "allow", None),
    (["mkdir", "-p"], "allow", None),
    (["chmod", ["+x", "755"]], "allow", None),
    (["kubectl", ["apply", "delete"], "-f"], "prompt", None),
    (["kubectl", "delete"], "forbidden", None),
    (["make", "clean"], "prompt", None),
    (["make"], "allow", None),
    (["a", "b", "c", "d"], "allow", None),
    (["a", ["b", "x"], "c"], "prompt", None),
    (["spaced word", "two words"], "allow", None),
    (["ünï", "ö"], "forbidden", None),
]
# The decision for each command: allow, prompt, forbidden, or none (no rule matches).
CASES = """
prompt     git push
prompt     git push origin main
prompt     git push origin --force
prompt     git push origin -f
prompt     git push -forceful
prompt     git push --forced
prompt     git push -u origin main
prompt     git push --FORCE
prompt     git fetch
prompt     git fetch --force
prompt     git fetch -f origin
prompt     git fetch --all --prune
forbidden  git push --force
forbidden  git push -f
forbidden  git push --force origin main
forbidden  git push -f origin main
allow      git commit
allow      git commit -m x
allow      git commit -m --amend
allow      git commit -a --amend
prompt     git commit --amend
prompt     git commit --amend --no-edit
none       git pull
none       git pusher
none       git -C x push
none       git --no-pager commit
none       Git push
none       GIT push
none       git-push
none       gitpush
none       git x push
none       push git
allow      npm run build
allow      npm run build -- --watch
allow      pnpm run build
allow      pnpm run deploy
allow      pnpm run deploy --prod
prompt     npm run deploy
prompt     npm run deploy --dry
prompt     npm run deploy --dry --prod
forbidden  npm run deploy --prod
forbidden  npm run deploy --prod now
none       npm run
none       npm
none       npm run builds
none       npm build run
none       yarn run build
none       npm -s run build
allow      cargo
allow      cargo build
allow      cargo build --release
allow      cargo test publish
allow      cargo -v publish
allow      cargo +nightly publish
prompt     cargo publish
prompt     cargo publish --dry-run
prompt     cargo publish --dry-run --no-verify
prompt     cargo publish x --no-verify
forbidden  cargo publish --no-verify
forbidden  cargo publish --no-verify --token t
none       cargo-clippy
none       cargos build
none       xcargo
prompt     docker
prompt     docker ps
prompt     docker run x
prompt     docker run -it --privileged x
prompt     docker start --privileged
prompt     docker compose
prompt     docker compose down
prompt     docker compose up
prompt     docker compose up -d
forbidden  docker run --privileged x
forbidden  docker exec --privileged x sh
forbidden  docker exec --privileged
none       docker-compose up
forbidden  rm
forbidden  rm x
forbidden  rm -rf build
none       rmdir x
none       unlink x
allow      touch
allow      touch a b c
allow      touch rm
none       touchx a
allow      mkdir -p a/b
none       mkdir a
none       mkdir a -p
none       mkdir -pv a
allow      chmod +x run.sh
allow      chmod 755 run.sh
none       chmod 777 run.sh
none       chmod -R +x dir
prompt     kubectl apply -f x.yaml
forbidden  kubectl delete -f x.yaml
forbidden  kubectl delete pod x
none       kubectl apply x.yaml
none       kubectl get pods
prompt     make clean
prompt     make clean all
allow      make
allow      make all clean
allow      make -j4 clean
none       makex
prompt     a b c
prompt     a b c d
prompt     a x c
prompt     a x c d
none       a b
none       a x d c
none       a
none       b c d
allow      spaced·word two·words
allow      spaced·word two·words three
none       spaced·word two
none       spaced word two words
forbidden  ünï ö
none       ünï o
none       uni ö
"""
HERE = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}


def cases():
    for line in CASES.strip().splitlines():
        wanted, words = line.split(None, 1)
        yield wanted, [w.replace("·", " ") for w in words.split()]


def ours(rule):
    pattern, decision, why = rule
    return dict({"pattern": pattern, "decision": decision}, **({"justification": why} if why else {}))


def theirs(rule):
    pattern, decision, why = rule
    return f"prefix_rule(pattern={json.dumps(pattern, ensure_ascii=False)}, decision={json.dumps(decision)}" + (f", justification={json.dumps(why)})" if why else ")")


def test_stored_table_is_decided_as_expected():
    assert len(list(cases())) >= 100
    # Nothing is allowed but by a rule.
    with Policed({"permissions": {"defaultMode": "untrusted"}, "prefixRules": [ours(r) for r in RULES]}) as home, home.rpc() as rpc:
        for wanted, argv in cases():
            said = rpc.call("evaluate_permission", command=argv, cwd=home.work)["permissionDecision"]
            if argv == ["git-push"]: # git's own program for the verb: here the rule about git push applies
                assert said["decision"] == HERE["prompt"], (argv, said)
            elif wanted == "none":
                assert said["decision"] != "deny" and not said["ruleRefs"], (argv, said)
            else:
                assert said["decision"] == HERE[wanted] and said["decisionSource"] == "rule" and said["ruleRefs"], (wanted, argv, said)


def codex():
    base = os.path.join(npm.packages("codex"), "node_modules", "@openai")
    for folder, _, names in os.walk(base):
        if os.path.basename(folder) == "bin" and "codex" in names and "vendor" in folder:
            return os.path.join(folder, "codex")
    raise Skip("the package has no program for this machine")


def test_stored_table_matches_codex():
    program = codex()
    with tempfile.TemporaryDirectory(prefix="bl-") as folder:
        rules = os.path.join(folder, "rules")
        with open(rules, "w") as f:
            f.write("\n".join(map(theirs, RULES)) + "\n")
        env = {"PATH": harness.PATH, "HOME": folder, "CODEX_HOME": os.path.join(folder, "home")}
        os.mkdir(env["CODEX_HOME"])
        for wanted, argv in cases():
            done = subprocess.run([program, "execpolicy", "check", "--rules", rules, *argv], env=env, cwd=folder, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=harness.PATIENCE)
            if done.returncode < 0 or not done.stdout.strip():
                raise Skip(f"codex does not run here: {done.stderr.decode('utf-8', 'replace')[-200:]}")
            said = json.loads(done.stdout)
            assert said.get("decision", "none") == wanted, (wanted, argv, said)


if __name__ == "__main__":
    harness.main(globals())
