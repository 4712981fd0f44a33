"""Images attached to turns of the loop: what the provider receives, what is stored, and which images are rejected."""

import base64
import json
import os
import struct
import zlib

import harness
import test_ownership
from acp import Acp, text_of
from harness import until
from test_agent import DIALECTS, call, completed, events, model, submit

INVALID, NOT_FOUND, CONFLICT = -32602, -32004, -32009
IMAGE_MAX = 3840 << 10
NOTE = "An image was attached; this model cannot see it."


def png(noise=0):
    """An image of one pixel, followed by `noise` bytes that cannot be compressed."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\0\x7f")) + chunk(b"IEND", b"") + os.urandom(noise)


def part(data):
    return {"type": "image", "data": base64.b64encode(data).decode()}


def ask(rpc, *images, text="what is this?", **more):
    return rpc.call("submit_turn", driver="loop", input=[{"type": "text", "text": text}, *images], **more)


def received(request):
    """The images of a request as (media type, bytes), where the dialect has them."""
    body, found = request.body, []
    for message in body.get("messages") or body.get("input") or body.get("contents"):
        for block in message.get("parts") or message.get("content") or []:
            url = None
            if not isinstance(block, dict):
                continue
            if block.get("type") == "image":
                assert block["source"]["type"] == "base64", block
                found.append((block["source"]["media_type"], block["source"]["data"]))
            elif block.get("type") == "input_image":
                url = block["image_url"]
            elif block.get("type") == "image_url":
                url = block["image_url"]["url"]
            elif "inlineData" in block:
                found.append((block["inlineData"]["mimeType"], block["inlineData"]["data"]))
            if url:
                head, data = url.split(",", 1)
                assert head.startswith("data:") and head.endswith(";base64"), head
                found.append((head[5:-7], data))
    return [(kind, base64.b64decode(data, validate=True)) for kind, data in found]


def prefix(request):
    """The conversation of a request, without the cache's breakpoints, which move."""
    body = json.loads(json.dumps(request.body).replace(', "cache_control": {"type": "ephemeral"}', ""))
    return body.get("messages") or body.get("input") or body.get("contents")


def test_every_provider_gets_the_bytes(home):
    small, large, jpeg = png(), png(400 << 10), b"\xff\xd8\xff\xe0" + b"jpeg"
    for dialect in DIALECTS:
        script = [{"calls": [call("shell", command="true")]}, {"text": "A pixel."}, {"text": "The same."}]
        with home.rpc() as rpc, model(home, rpc, script, dialect=dialect) as p:
            turn = ask(rpc, part(small), part(large), part(jpeg))
            completed(rpc, turn)
            completed(rpc, submit(rpc, "and now?", sessionId=turn["sessionId"]))
            want = [("image/png", small), ("image/png", large), ("image/jpeg", jpeg)]
            for request in p.requests:
                assert received(request) == want, (dialect, request.number)
            first, second, third = map(prefix, p.requests)
            assert second[:len(first)] == first and third[:len(second)] == second, f"{dialect}: the cache applies"
            stored = json.loads(rpc.output(events(rpc, turn, "turn.submitted")[0]["payload"]["inputRef"]))["input"]
            assert [s["type"] for s in stored] == ["text", "image", "image", "image"] and "data" not in stored[1], stored
            kept = {e["payload"]["outputRef"]: e["payload"] for e in events(rpc, turn, "output.spilled")}
            assert [kept[s["outputRef"]]["mediaType"] for s in stored[1:]] == [kind for kind, _ in want], kept
            items = json.loads(rpc.output(events(rpc, turn, "model.requested")[0]["payload"]["itemsRef"]))
            assert [i["ref"] for i in items if i["type"] == "image"] == [s["outputRef"] for s in stored[1:]], "by ref, not inline"
            harness.validate(harness.event_validators(), events(rpc, turn))
    home.cli("store", "verify")


def test_a_stored_image_is_attached_by_its_ref(home):
    image = png()
    with home.rpc() as rpc, model(home, rpc, ["One.", "Two."]) as p:
        turn = ask(rpc, part(image))
        completed(rpc, turn)
        ref = json.loads(rpc.output(events(rpc, turn, "turn.submitted")[0]["payload"]["inputRef"]))["input"][1]["outputRef"]
        completed(rpc, ask(rpc, {"type": "image", "outputRef": ref}))
        assert received(p.requests[1]) == [("image/png", image)], "in another session"
        text = events(rpc, turn, "model.requested")[0]["payload"]["itemsRef"]
        assert "PNG" in rpc.fails("submit_turn", input=[{"type": "text", "text": "a"}, {"type": "image", "outputRef": text}], code=INVALID).message


def test_an_image_outlives_the_command_that_printed_it(home):
    image = png()
    with open(os.path.join(home.work, "a.png"), "wb") as f:
        f.write(image)
    with home.rpc() as rpc, model(home, rpc, ["One.", "Two."]) as p:
        process = rpc.call("start_process", command=["cat", "a.png"], cwd=home.work)
        rpc.call("wait_process", processId=process["processId"])
        shown = {"type": "image", "outputRef": process["outputRefs"][0]["outputRef"]}
        turn = ask(rpc, shown)
        completed(rpc, turn)
        rpc.call("prune_store", beforeSequence=events(rpc, turn, "turn.submitted")[0]["sequence"])
        rpc.fails("submit_turn", input=[{"type": "text", "text": "a"}, shown])
        submit(rpc, "and now?", sessionId=turn["sessionId"])
        until("the second request", lambda: len(p.requests) == 2 and p.requests[1].done.is_set())
        assert [received(r) for r in p.requests] == [[("image/png", image)]] * 2


def test_repeated_submission_with_an_image_is_one_turn(home):
    image = part(png())
    with home.rpc() as rpc, model(home, rpc, ["One."]) as p:
        completed(rpc, ask(rpc, image, turnId="turn-with-image"))
        assert ask(rpc, image, turnId="turn-with-image")["turnId"] == "turn-with-image"
        assert len(p.requests) == 1
        rpc.fails("submit_turn", driver="loop", turnId="turn-with-image", input=[{"type": "text", "text": "what is this?"}, part(png(1))], code=CONFLICT)


def test_a_model_without_vision_gets_a_note(home):
    with home.rpc() as rpc, model(home, rpc, ["No.", "Still not."], textOnly=True) as p:
        assert rpc.call("get_model", name="fake")["textOnly"] is True
        turn = ask(rpc, part(png()))
        completed(rpc, turn)
        completed(rpc, submit(rpc, "and now?", sessionId=turn["sessionId"]))
        for request in p.requests:
            assert received(request) == [] and request.texts.count(NOTE) == 1, request.texts
    with home.rpc() as rpc, model(home, rpc, ["Yes."]) as p:
        completed(rpc, submit(rpc, "look again", sessionId=turn["sessionId"]))
        assert len(received(p.requests[0])) == 1 and NOTE not in p.requests[0].texts, "another model of the same conversation sees it"


def test_invalid_images_are_rejected_with_the_field_and_reason(home):
    text = {"type": "text", "text": "what is this?"}
    whole = png(IMAGE_MAX - len(png()))
    with home.rpc() as rpc, model(home, rpc, ["One."]) as p:
        for image, field, word, code in (
                (part(b"plain text"), "data", "PNG, JPEG, GIF or WebP", INVALID),
                (part(b""), "data", "PNG", INVALID),
                (part(whole + b"x"), "data", "at most 3840 KiB", INVALID),
                ({"type": "image", "data": "*"}, "data", "base64", INVALID),
                ({"type": "image", "data": 5}, "data", "base64", INVALID),
                ({"type": "image"}, "data", "outputRef", INVALID),
                (dict(part(png()), outputRef="out_1"), "outputRef", "either", INVALID),
                ({"type": "image", "path": "/etc/passwd"}, "data", "base64", INVALID),
                ({"type": "image", "outputRef": "out_none"}, "outputRef", "not known", NOT_FOUND)):
            error = rpc.fails("submit_turn", driver="loop", input=[text, image], code=code)
            assert error.data["field"] == f"input[1].{field}" and word in error.message, (error.data, error.message)
        assert "text part" in rpc.fails("submit_turn", input=[part(png())], code=INVALID).message
        turn = ask(rpc, part(whole))
        completed(rpc, turn)
        assert received(p.requests[0]) == [("image/png", whole)], "the largest one"
        ref = json.loads(rpc.output(events(rpc, turn, "turn.submitted")[0]["payload"]["inputRef"]))["input"][1]["outputRef"]
        error = rpc.fails("submit_turn", driver="loop", input=[text] + [{"type": "image", "outputRef": ref}] * 4, code=INVALID)
        assert error.data["field"] == "input[4].outputRef" and "12 MiB in total" in error.message, error.message


def test_image_of_another_user_is_unknown():
    with test_ownership.shared() as home:
        with test_ownership.as_user(home, test_ownership.ALICE) as alice:
            turn = alice.call("submit_turn", input=[{"type": "text", "text": "a"}, part(png())])
            ref = json.loads(alice.output(events(alice, turn, "turn.submitted")[0]["payload"]["inputRef"]))["input"][1]["outputRef"]
            again = [{"type": "text", "text": "a"}, {"type": "image", "outputRef": ref}]
            alice.call("submit_turn", input=again)
        with test_ownership.as_user(home, test_ownership.BOB) as bob:
            error = bob.fails("submit_turn", input=again, code=NOT_FOUND)
            assert "not known" in error.message and error.data["field"] == "input[1].outputRef", (error.message, error.data)


def test_the_cli_attaches_files(home):
    files = {"a.png": png(), "large.png": png(IMAGE_MAX - 1000), "b.gif": b"GIF89a" + b"\1\0" * 9, "c.webp": b"RIFF\x20\0\0\0WEBPVP8 ", "big.png": png(IMAGE_MAX), "no.txt": b"text"}
    for name, data in files.items():
        with open(os.path.join(home.work, name), "wb") as f:
            f.write(data)
    path = {name: os.path.join(home.work, name) for name in files}
    with home.rpc() as rpc, model(home, rpc, ["Three."]) as p:
        said = home.cli("agent", "-p", "--image", path["a.png"], "--image", path["b.gif"], "--image", path["c.webp"], "what is this?")
        assert said.text.strip() == "Three.", said
        assert received(p.requests[0]) == [("image/png", files["a.png"]), ("image/gif", files["b.gif"]), ("image/webp", files["c.webp"])]
        for name, word in ((path["big.png"], "larger than 3840 KiB"), (path["no.txt"], "not a PNG"), ("/none.png", "No such file")):
            assert word in home.cli("agent", "-p", "--image", name, "go", status=1).err.decode(), name
        assert "10 MiB in total" in home.cli("agent", "-p", *["--image", path["large.png"]] * 3, "go", status=1).err.decode()
        assert len(p.requests) == 1


def test_several_large_images_fit_into_a_request(home):
    with open(os.path.join(home.work, "large.png"), "wb") as f:
        f.write(png(IMAGE_MAX - 1000))
    with home.rpc() as rpc, model(home, rpc, ["Two."]) as p:
        home.cli("agent", "-p", "--image", "large.png", "--image", "large.png", "go")
        assert [len(data) for _, data in received(p.requests[0])] == [os.path.getsize(f.name)] * 2


def test_an_editor_attaches_images(home):
    image = png()
    with home.rpc() as rpc, model(home, rpc, ["A pixel.", "The same."]) as p, Acp(home) as acp:
        acp.open(home.work)
        block = dict(part(image), mimeType="image/png")
        assert acp.run([block, {"type": "text", "text": "what is this?"}])[0] == "end_turn"
        assert received(p.requests[0]) == [("image/png", image)]
        acp.fails("session/prompt", sessionId=acp.id, prompt=[{"type": "text", "text": "a"}, dict(part(b"no"), mimeType="image/png")])
        acp.fails("session/prompt", sessionId=acp.id, prompt=[{"type": "text", "text": ""}], code=INVALID)
        with Acp(home) as again:
            again.id = acp.id
            again.call("session/load", sessionId=acp.id, cwd=home.work, mcpServers=[])
            assert text_of(again.updates(), "user_message_chunk") == "what is this?\n(an image)", again.updates()
        assert acp.run([block])[0] == "end_turn" and received(p.requests[1]) == [("image/png", image)] * 2, "a prompt may be an image alone"


if __name__ == "__main__":
    harness.main(globals())
