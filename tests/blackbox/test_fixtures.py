"""The published examples match bailiff's output and are valid."""

import fixtures
import harness


def test_published_examples_have_the_shape_of_a_run(home):
    made, kept = fixtures.made(home), dict(fixtures.published())
    assert sorted(made) == sorted(kept), (sorted(made), sorted(kept))
    for name, document in made.items():
        assert fixtures.shape(document) == fixtures.shape(kept[name]), f"{name} has another shape now; tests/blackbox/fixtures.py --write"


def test_published_examples_are_valid():
    kept, validators = dict(fixtures.published()), harness.schema_validators()
    harness.validate(harness.event_validators(), [d for n, d in kept.items() if n.endswith("-event")])
    errors = sorted(validators["benchmark-pack.schema.json"].iter_errors(kept["benchmark-trial-pack"]), key=str)
    assert not errors, errors[0].message


if __name__ == "__main__":
    harness.main(globals())
