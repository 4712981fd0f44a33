"""Every declared parameter of every method, given values of the wrong type: an error that names it, and nothing happens."""

import copy

import harness

VALUES = {
    "string": ["x"], "uint": [5], "int": [5], "number": [1.5], "bool": [True], "object": [{}], "strings": [["a"]], "env": [{"A": "b"}], "array": [[]],
}
WRONG = {
    "string": [5, True, [], {}, None, 1.5],
    "id": [5, True, [], {}, None, "", "has space", "x" * 10000, "../../etc", "a\0b"],
    "uint": ["5", -1, 1.5, [], {}, True, None, 1e300],
    "int": ["5", 1.5, [], {}, True, None],
    "number": ["5", [], {}, True, None],
    "bool": [0, 1, "true", [], {}, None],
    "object": [5, "x", [], True, None],
    "strings": [5, "x", {}, [1], [None], [[]], True, None],
    "env": [5, "x", [], {"A": 5}, {"A": []}, True, None],
    "array": [5, "x", {}, True, None],
    "enum": ["no-such-word", "", 5, [], {}, True, None],
    "path": [5, "relative/path", "", [], {}, True, None, "/a\0b"],
}


def sample(param):
    """A value that the check of this parameter accepts."""
    kind = param["type"]
    if kind == "id":
        return "proc_none"
    if kind == "enum":
        return param["enum"][0]
    if param.get("members"):
        return {m["name"]: sample(m) for m in param["members"] if m.get("required")}
    if kind == "path":
        return "/nonexistent/x"
    return copy.deepcopy(VALUES.get(kind, ["x"])[0])


def declared(rpc):
    listing = rpc.call("list_methods")
    methods = listing["methods"] if isinstance(listing, dict) else listing
    assert len(methods) > 15
    for method in methods:
        params = method.get("params", method.get("parameters"))
        assert params is not None and method["summary"], method
        yield method, params


def walk(params, prefix=()):
    for param in params:
        yield prefix, param
        if param.get("members"):
            yield from walk(param["members"], prefix + (param["name"],))


def place(params, path, name, value):
    """A request whose required parameters are there and where path.name is value."""
    request = {p["name"]: sample(p) for p in params if p.get("required")}
    at, level = request, params
    for step in path:
        inner = next(p for p in level if p["name"] == step)
        level = inner["members"]
        at = at.setdefault(step, {})
        if not isinstance(at, dict):
            return None
        for p in level:
            if p.get("required"):
                at.setdefault(p["name"], sample(p))
    at[name] = value
    return request


def test_wrong_types_are_rejected_by_name(home):
    count = 0
    with home.rpc() as rpc:
        before = rpc.events()
        for method, params in declared(rpc):
            for path, param in walk(params):
                field = ".".join(path + (param["name"],))
                for value in WRONG.get(param["type"].lower(), []):
                    if value is None and param["type"] == "env":
                        continue
                    request = place(params, path, param["name"], value)
                    error = rpc.fails(method["name"], request)
                    assert error.code == -32602, f"{method['name']} {field}={value!r}: {error}"
                    assert field.split(".")[-1] in error.message, f"{method['name']} {field}={value!r}: {error.message}"
                    count += 1
        assert count > 300, count
        assert rpc.events() == before, "bad requests wrote events"
    print(f"# {count} wrong values")


def test_missing_required_parameters_are_named(home):
    with home.rpc() as rpc:
        for method, params in declared(rpc):
            for param in params:
                if param.get("required"):
                    request = {p["name"]: sample(p) for p in params if p.get("required") and p["name"] != param["name"]}
                    error = rpc.fails(method["name"], request, code=-32602)
                    assert any(p["name"] in error.message for p in params if p.get("required")), error


def test_unknown_parameters_are_rejected_by_every_method(home):
    with home.rpc() as rpc:
        for method, params in declared(rpc):
            request = {p["name"]: sample(p) for p in params if p.get("required")}
            error = rpc.fails(method["name"], dict(request, unheardOf=1), code=-32602)
            assert "unheardOf" in error.message, (method["name"], error)


def test_mutating_methods_accept_an_idempotency_key(home):
    with home.rpc() as rpc:
        for method, params in declared(rpc):
            if method.get("mutating"):
                request = {p["name"]: sample(p) for p in params if p.get("required")}
                error = rpc.fails(method["name"], dict(request, idempotencyKey=5), code=-32602)
                assert "idempotencyKey" in error.message, (method["name"], error)


def test_ids_that_are_not_known_are_named(home):
    """Each parameter that is an id, alone with the required ones: what is not found is one of these."""
    count, wrong = 0, []
    with home.rpc() as rpc:
        for method, params in declared(rpc):
            for param in params:
                if param["type"] != "id" or param["name"] == "idempotencyKey":
                    continue
                request = place(params, (), param["name"], "x_none")
                try:
                    rpc.call(method["name"], request)
                except harness.RpcError as error:
                    if error.code == -32004:
                        count += 1
                        field = error.data.get("field", "").split("[")[0]
                        # A queued turn has one id, which two names may carry.
                        if field not in request and (field, param["name"]) != ("queuedTurnId", "turnId"):
                            wrong.append((method["name"], request, str(error)))
    assert count > 50 and not wrong, (count, wrong)


def test_positional_parameters_are_rejected(home):
    with home.rpc() as rpc:
        rpc.raw(b'{"jsonrpc":"2.0","id":9001,"method":"get_process","params":["proc_x"]}\n')
        assert rpc.odd_reply()["error"]["code"] == -32602


if __name__ == "__main__":
    harness.main(globals())
